//! The program's allocator: the system's, but large blocks are asked for in large pages.
//!
//! A message of tens of megabytes (a file in one piece) lies in memory that is mapped for it and given
//! back. With pages of 4 KiB it is cleared and entered into the page table page by page, at a quarter of
//! the rate, and each of the passes over it (received, unmasked, checked, decoded) takes three times as
//! long for want of entries in the processor's own table.

use std::alloc::{GlobalAlloc, Layout, System};

/// Below this nothing is won, and small blocks share their pages with others.
const LARGE: usize = 4 * 1024 * 1024;
/// A multiple of every size that the pages of a Linux have.
const PAGES: usize = 64 * 1024;

/// To be the global allocator of a program.
pub struct LargePages;

// SAFETY: all is the system allocator's; what a block's pages are changes nothing that it promises.
unsafe impl GlobalAlloc for LargePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, here and below.
        advised(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        advised(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        advised(unsafe { System.realloc(block, layout, size) }, size)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) };
    }
}

#[cfg(target_os = "linux")]
fn advised(block: *mut u8, size: usize) -> *mut u8 {
    if size >= LARGE && !block.is_null() {
        let before = block.align_offset(PAGES);
        let length = (size - before) / PAGES * PAGES;
        // SAFETY: whole pages within the block. It is advice alone: what it cannot do, it leaves.
        unsafe { libc::madvise(block.wrapping_add(before).cast(), length, libc::MADV_HUGEPAGE) };
    }
    block
}

#[cfg(not(target_os = "linux"))]
fn advised(block: *mut u8, _size: usize) -> *mut u8 {
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_grows_and_shrinks_past_the_limit_keeps_its_bytes() {
        let layout = |size| Layout::from_size_align(size, 16).unwrap();
        let sizes = [100, LARGE - 1, LARGE, 3 * LARGE + 5, LARGE / 2, 2 * LARGE];
        // SAFETY: each block is used within the size that it has, and given back with that.
        unsafe {
            let mut block = LargePages.alloc_zeroed(layout(sizes[0]));
            block.write_bytes(7, sizes[0]);
            for pair in sizes.windows(2) {
                block = LargePages.realloc(block, layout(pair[0]), pair[1]);
                assert_eq!((block.read(), block.add(99).read()), (7, 7));
                block.add(pair[1] - 1).write(1);
            }
            LargePages.dealloc(block, layout(sizes[5]));
            let zeros = LargePages.alloc_zeroed(layout(2 * LARGE));
            assert!(std::slice::from_raw_parts(zeros, 2 * LARGE).iter().all(|byte| *byte == 0));
            LargePages.dealloc(zeros, layout(2 * LARGE));
        }
    }
}
