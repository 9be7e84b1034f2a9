//! The alphabet of byte-level BPE: each byte is written as one visible character (GPT-2's table). Bytes that Latin-1
//! shows stand for themselves; the other 68 are numbered from U+0100.

/// Whether Latin-1 shows the byte as a character of its own.
fn is_visible(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff)
}

/// The character of a byte.
pub(super) fn character(byte: u8) -> char {
    let hidden_before = |end: u8| (0..end).filter(|byte| !is_visible(*byte)).count() as u32;
    if is_visible(byte) {
        return char::from(byte);
    }
    // At most 0x100 + 67, which is a character.
    char::from_u32(0x100 + hidden_before(byte)).unwrap_or_default()
}

/// The byte of each character from U+0000 to U+0143, if it stands for one.
const BYTES: [Option<u8>; 0x144] = {
    let mut bytes = [None; 0x144];
    let mut hidden = 0x100;
    let mut byte = 0u8;
    loop {
        if matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) {
            bytes[byte as usize] = Some(byte);
        } else {
            bytes[hidden] = Some(byte);
            hidden += 1;
        }
        if byte == u8::MAX {
            break;
        }
        byte += 1;
    }
    bytes
};

/// Appends the bytes that a token's text stands for. Characters outside the alphabet stand for themselves.
pub(crate) fn decode(text: &str, out: &mut Vec<u8>) {
    for character in text.chars() {
        match BYTES.get(character as usize) {
            Some(Some(byte)) => out.push(*byte),
            _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_character_and_comes_back() {
        assert_eq!(
            (character(b' '), character(b'\n'), character(b'a'), character(0)),
            ('Ġ', 'Ċ', 'a', 'Ā')
        );
        for byte in 0..=u8::MAX {
            let mut out = Vec::new();
            decode(&character(byte).to_string(), &mut out);
            assert_eq!(out, [byte]);
        }
    }
}
