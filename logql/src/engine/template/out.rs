//! Bytes that are written up to a limit.

/// Collects output; refuses what would exceed the limit.
#[derive(Debug)]
pub(super) struct Out<'o> {
    bytes: &'o mut Vec<u8>,
    /// Largest length of `bytes`.
    max_len_bytes: usize,
}

impl<'o> Out<'o> {
    pub(super) fn new(bytes: &'o mut Vec<u8>, max_len_bytes: usize) -> Self {
        Self { bytes, max_len_bytes }
    }

    fn admit(&self, len_bytes: usize) -> Result<(), String> {
        if self.bytes.len().saturating_add(len_bytes) > self.max_len_bytes {
            return Err(format!("the output exceeds {} bytes", self.max_len_bytes));
        }
        Ok(())
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.admit(bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn push_char(&mut self, c: char) -> Result<(), String> {
        self.push(c.encode_utf8(&mut [0; 4]).as_bytes())
    }

    pub(super) fn fill(&mut self, byte: u8, count: usize) -> Result<(), String> {
        self.admit(count)?;
        self.bytes.resize(self.bytes.len() + count, byte);
        Ok(())
    }
}
