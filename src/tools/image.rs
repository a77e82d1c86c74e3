//! Images, known by their content.

/// The MIME type of what begins like this, if it is an image that models are shown.
pub(super) fn mime_type(start: &[u8]) -> Option<&'static str> {
    let is_webp = start.starts_with(b"RIFF") && start.get(8..12) == Some(b"WEBP");
    if start.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if start.starts_with(b"\xff\xd8\xff") && start.get(3) != Some(&0xf7) {
        // (With 0xf7 it is lossless JPEG, which hardly anybody reads.)
        Some("image/jpeg")
    } else if start.starts_with(b"GIF87a") || start.starts_with(b"GIF89a") {
        Some("image/gif")
    } else if is_webp {
        Some("image/webp")
    } else if is_bmp(start) {
        Some("image/bmp")
    } else {
        None
    }
}

/// A text may begin with "BM": the reserved bytes are zero, and the header has one of a few lengths.
fn is_bmp(start: &[u8]) -> bool {
    let header = start.get(14..18).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    start.starts_with(b"BM")
        && start.get(6..10) == Some(&[0; 4])
        && header.is_some_and(|length| matches!(length, 12 | 40 | 52 | 56 | 64 | 108 | 124))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_known_by_their_first_bytes() {
        let bmp = [b"BM\x46\0\0\0\0\0\0\0\x36\0\0\0".as_slice(), &40_u32.to_le_bytes()].concat();
        for (start, expected) in [
            (&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\x24\0\0\0WEBPVP8 ", Some("image/webp")),
            (&bmp, Some("image/bmp")),
            (b"RIFF\x24\0\0\0WAVEfmt ", None),
            (b"BM is how this text begins", None),
            (b"", None),
        ] {
            assert_eq!(mime_type(start), expected, "{start:?}");
        }
    }
}
