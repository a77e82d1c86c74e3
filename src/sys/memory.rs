//! What memory is made of.

/// Below this nothing is won, and small blocks share their pages with others.
#[cfg(target_os = "linux")]
const LARGE: usize = 4 * 1024 * 1024;
/// A multiple of every size that the pages of a Linux have.
#[cfg(target_os = "linux")]
const PAGES: usize = 64 * 1024;

/// Asks for large pages in what a buffer has room for, where that is much.
///
/// A message of tens of megabytes (a file in one piece) lies in memory that is mapped for it and given
/// back. With pages of 4 KiB it is cleared and entered into the page table page by page, at a quarter of
/// the rate, and each of the passes over it (received, unmasked, checked, decoded) takes three times as
/// long for want of entries in the processor's own table.
#[cfg(target_os = "linux")]
pub(crate) fn prefer_large_pages(buffer: &mut Vec<u8>) {
    let room = buffer.spare_capacity_mut();
    if room.len() >= LARGE {
        let before = room.as_ptr().align_offset(PAGES);
        let length = (room.len() - before) / PAGES * PAGES;
        let start = room.as_mut_ptr().wrapping_add(before);
        // SAFETY: whole pages within the buffer. It is advice alone: what it cannot do, it leaves.
        unsafe { libc::madvise(start.cast(), length, libc::MADV_HUGEPAGE) };
    }
}

/// Elsewhere the system sees to that, or it does not.
#[cfg(not(target_os = "linux"))]
pub(crate) fn prefer_large_pages(_buffer: &mut Vec<u8>) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The kernel says so of the mapping: `hg` among its flags.
    #[test]
    fn a_large_buffer_is_in_large_pages() {
        let size = 3 * LARGE + 5;
        let mut buffer: Vec<u8> = Vec::with_capacity(size);
        prefer_large_pages(&mut buffer);
        buffer.resize(size, 7);
        let middle = buffer.as_ptr() as usize + size / 2;
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let number = |text| usize::from_str_radix(text, 16).ok();
        let mut is_its = false;
        let flags = maps.lines().find_map(|line| {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            if let Some((Some(from), Some(to))) = range.map(|(from, to)| (number(from), number(to)))
            {
                is_its = (from..to).contains(&middle);
            }
            line.strip_prefix("VmFlags:").filter(|_| is_its)
        });
        let flags = flags.expect("the buffer is mapped");
        assert!(flags.split(' ').any(|flag| flag == "hg"), "{flags}");
    }
}
