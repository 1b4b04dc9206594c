//! Signed integers that are sums of short numbers far apart.
//!
//! An integer is `narrow` first: 128 bits at a place that follows from its numbers. It becomes
//! wide, an integer of all words in the complement of two, when 128 bits do not hold it. Adding is
//! exact in both forms.
//!
//! What can go wrong: an integer beyond its words wraps. The caller gives it words for all numbers
//! it can count.

/// An integer of up to `WORDS` words of 64 bits.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct FixedPoint<const WORDS: usize> {
    /// The integer divided by `2^place`, or 0 if it is wide.
    narrow: i128,
    place: u32,
    /// For the owner. It lies where nothing else would.
    pub(super) marks: u8,
    /// The integer, lowest word first.
    wide: Option<Box<[u64; WORDS]>>,
}

impl<const WORDS: usize> Default for FixedPoint<WORDS> {
    fn default() -> Self {
        Self { narrow: 0, place: 0, marks: 0, wide: None }
    }
}

impl<const WORDS: usize> FixedPoint<WORDS> {
    /// Heap memory of a wide one in bytes.
    pub(super) const WIDE_BYTES: usize = size_of::<[u64; WORDS]>();

    /// `units * 2^place`, where the words hold the place.
    pub(super) fn narrow(units: i128, place: u32) -> Self {
        Self { narrow: units, place, marks: 0, wide: None }
    }

    /// The integer of these words in the complement of two, lowest word first.
    pub(super) fn wide(words: Box<[u64; WORDS]>) -> Self {
        Self { wide: Some(words), ..Self::default() }
    }

    /// The units and the place, or else the words.
    pub(super) fn form(&self) -> Result<(i128, u32), &[u64; WORDS]> {
        match &self.wide {
            None => Ok((self.narrow, self.place)),
            Some(words) => Err(words),
        }
    }

    /// Adds `bits * 2^place`, or takes it away. False, and nothing is done, if it has to be
    /// widened for that.
    #[inline]
    pub(super) fn add_narrow(&mut self, is_negative: bool, bits: u128, place: u32) -> bool {
        if let Some(words) = &mut self.wide {
            add_at(&mut words[..], is_negative, bits, place);
            return true;
        }
        let Ok(bits) = i128::try_from(bits) else { return false };
        let bits = if is_negative { -bits } else { bits };
        let Some((sum, place)) = joined((self.narrow, self.place), (bits, place)) else {
            return false;
        };
        (self.narrow, self.place) = (sum, place);
        true
    }

    /// Adds `bits * 2^place`, or takes it away.
    #[inline]
    pub(super) fn add(&mut self, is_negative: bool, bits: u128, place: u32) {
        if !self.add_narrow(is_negative, bits, place) {
            self.widen();
            self.add_narrow(is_negative, bits, place);
        }
    }

    /// Makes it wide.
    fn widen(&mut self) {
        if self.wide.is_none() {
            let mut words = Box::new([0; WORDS]);
            let (narrow, place) = (self.narrow, self.place);
            add_at(&mut words[..], narrow < 0, narrow.unsigned_abs(), place);
            (self.narrow, self.place, self.wide) = (0, 0, Some(words));
        }
    }

    /// Adds another one.
    pub(super) fn join(&mut self, other: &Self) {
        if let Some(others) = &other.wide {
            self.widen();
            if let Some(words) = &mut self.wide {
                add_words(words.iter_mut(), others.iter().copied());
            }
        } else {
            self.add(other.narrow < 0, other.narrow.unsigned_abs(), other.place);
        }
    }

    /// The most heap memory that one has which is joined from some of these, in bytes.
    pub(super) fn joined_heap_bytes<'f>(all: impl Iterator<Item = &'f Self>) -> usize {
        let (mut count, mut start, mut end) = (0usize, u32::MAX, 0);
        for one in all {
            if one.wide.is_some() {
                return Self::WIDE_BYTES;
            }
            if one.narrow != 0 {
                let len = u128::BITS - one.narrow.unsigned_abs().leading_zeros();
                (start, end) = (start.min(one.place), end.max(one.place + len));
                count += 1;
            }
        }
        // Each doubling of their number takes a bit, and there is one for the sign.
        let bits = end.saturating_sub(start) + usize::BITS - count.leading_zeros();
        if bits < i128::BITS - 1 { 0 } else { Self::WIDE_BYTES }
    }

    /// Heap memory in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        if self.wide.is_some() { Self::WIDE_BYTES } else { 0 }
    }

    /// A number and a place, `number * 2^place` being the integer rounded half to even to 53 bits.
    pub(super) fn rounded(&self) -> (f64, u32) {
        if self.wide.is_none() {
            return (self.narrow as f64, self.place);
        }
        let (is_negative, words) = self.magnitude();
        let (magnitude, place) = rounded(&words);
        (if is_negative { -magnitude } else { magnitude }, place)
    }

    /// Whether the integer is negative, and its words without the sign.
    pub(super) fn magnitude(&self) -> (bool, [u64; WORDS]) {
        match &self.wide {
            None => {
                let mut words = [0; WORDS];
                add_at(&mut words, false, self.narrow.unsigned_abs(), self.place);
                (self.narrow < 0, words)
            }
            Some(wide) => {
                let mut words = **wide;
                let is_negative = words[WORDS - 1] >> 63 != 0;
                if is_negative {
                    negate(&mut words);
                }
                (is_negative, words)
            }
        }
    }
}

/// The sum of two numbers with their places; `None` if 128 bits do not hold it.
#[inline]
fn joined((a, a_place): (i128, u32), (b, b_place): (i128, u32)) -> Option<(i128, u32)> {
    if a == 0 || b == 0 {
        return Some(if a == 0 { (b, b_place) } else { (a, a_place) });
    }
    let place = a_place.min(b_place);
    let a = shifted(a, a_place - place)?;
    let b = shifted(b, b_place - place)?;
    Some((a.checked_add(b)?, place))
}

#[inline]
fn shifted(number: i128, by: u32) -> Option<i128> {
    (by < number.unsigned_abs().leading_zeros()).then(|| number << by)
}

/// Adds `bits * 2^place` to words, or takes it away.
fn add_at(words: &mut [u64], is_negative: bool, bits: u128, place: u32) {
    let (first, shift) = ((place / u64::BITS) as usize, place % u64::BITS);
    let low = bits << shift;
    let high = if shift == 0 { 0 } else { (bits >> (u128::BITS - shift)) as u64 };
    let mut parts = [low as u64, (low >> 64) as u64, high].into_iter();
    let mut carry = false;
    for word in &mut words[first..] {
        let part = match parts.next() {
            Some(part) => part,
            None if carry => 0,
            None => return,
        };
        *word = if is_negative {
            let (less, first_borrow) = word.overflowing_sub(part);
            let (less, second_borrow) = less.overflowing_sub(carry.into());
            carry = first_borrow || second_borrow;
            less
        } else {
            with_carry(*word, part, &mut carry)
        };
    }
}

/// Adds words to words, from the lowest.
pub(super) fn add_words<'w>(
    words: impl Iterator<Item = &'w mut u64>,
    others: impl Iterator<Item = u64>,
) {
    let mut carry = false;
    for (word, other) in words.zip(others) {
        *word = with_carry(*word, other, &mut carry);
    }
}

fn with_carry(a: u64, b: u64, carry: &mut bool) -> u64 {
    let (sum, first_carry) = a.overflowing_add(b);
    let (sum, second_carry) = sum.overflowing_add((*carry).into());
    *carry = first_carry || second_carry;
    sum
}

/// The words of the negative integer.
pub(super) fn negate(words: &mut [u64]) {
    let mut carry = true;
    for word in words {
        *word = with_carry(!*word, 0, &mut carry);
    }
}

/// As [`FixedPoint::rounded`], for an integer without a sign.
pub(super) fn rounded(words: &[u64]) -> (f64, u32) {
    match words.iter().rposition(|word| *word != 0) {
        None => (0.0, 0),
        Some(0) => (words[0] as f64, 0),
        Some(top) => {
            // At least 65 bits, so the last one is not among the 53 that stay. It tells whether
            // there is anything below.
            let bits = u128::from(words[top]) << 64 | u128::from(words[top - 1]);
            let has_more = words[..top - 1].iter().any(|word| *word != 0);
            ((bits | u128::from(has_more)) as f64, (top as u32 - 1) * u64::BITS)
        }
    }
}
