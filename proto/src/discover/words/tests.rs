use super::*;

/// Places of triples, found the plain way.
fn places<const N: usize>(line: &[u8], list: &[[u8; 3]; N]) -> Vec<usize> {
    let is_equal = |bytes: &[u8], triple: &[u8; 3]| {
        bytes.iter().zip(triple).all(|(byte, letter)| byte | 0x20 == *letter)
    };
    let triples = line.windows(3).enumerate();
    let hits = triples.filter(|(_, bytes)| list.iter().any(|triple| is_equal(bytes, triple)));
    hits.map(|(place, _)| place).collect()
}

fn visited(visit: impl FnOnce(&mut dyn FnMut(usize) -> bool)) -> Vec<usize> {
    let mut places = Vec::new();
    visit(&mut |place| {
        places.push(place);
        false
    });
    places
}

/// Lines of all short lengths, made of the bytes of words and of bytes near them.
fn lines() -> impl Iterator<Item = Vec<u8>> {
    let mut state = 7_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize
    };
    let alphabet = b"tradebfcrinfowTRADEBFCRINFOW[{\x12\x34\xf4\xe5\xd2 =";
    (0..6_000).map(move |number| {
        let mut line: Vec<u8> =
            (0..number % 150).map(|_| alphabet[random() % alphabet.len()]).collect();
        for _ in 0..random() % 3 {
            let word = TRIPLES.list[random() % TRIPLES.list.len()];
            if let Some(last) = line.len().checked_sub(3) {
                let at = random() % (last + 1);
                line[at..at + 3].copy_from_slice(&word);
            }
        }
        line
    })
}

#[test]
fn every_way_finds_the_same_places() {
    let mut found = 0;
    for line in lines() {
        let expected = places(&line, &TRIPLES.list);
        let hits = |chunk: &[u8; CHUNK_READ_LEN]| chunk_hits(chunk, &TRIPLES.list);
        assert_eq!(visited(|visit| visit_chunks(&line, hits, visit)), expected, "{line:?}");
        assert_eq!(visited(|visit| visit_triples(&line, &TRIPLES, visit)), expected, "{line:?}");
        assert_eq!(holds_any(&line, &TRIPLES), !expected.is_empty(), "{line:?}");
        found += expected.len();
    }
    assert!(found > 6_000, "{found} places");
}

/// Every byte at every place of a triple, against the tables.
#[cfg(target_arch = "x86_64")]
#[test]
fn tables_know_every_byte() {
    if !avx2::is_supported() {
        return;
    }
    for triple in TRIPLES.list {
        for (place, byte) in (0..3).flat_map(|place| (0..=255).map(move |byte| (place, byte))) {
            let mut line = triple;
            line[place] = byte;
            let hits = visited(|visit| avx2::visit(&line, &TRIPLES, visit));
            assert_eq!(hits, places(&line, &TRIPLES.list), "{line:?}");
        }
    }
}
