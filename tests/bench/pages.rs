//! Large blocks in large pages, for every client alike.
#![expect(unsafe_code, reason = "an allocator is")]

use std::alloc::{GlobalAlloc, Layout, System};

/// As the library has it (`src/sys/memory.rs`).
const LARGE: usize = 4 * 1024 * 1024;
/// A multiple of every size that the pages of a Linux have.
const PAGES: usize = 64 * 1024;

/// The system's allocator, with advice to the kernel.
pub(crate) struct LargePages;

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

fn advised(block: *mut u8, size: usize) -> *mut u8 {
    if size >= LARGE && !block.is_null() {
        let before = block.align_offset(PAGES);
        let length = (size - before) / PAGES * PAGES;
        // SAFETY: whole pages within the block. It is advice alone: what it cannot do, it leaves.
        unsafe { libc::madvise(block.wrapping_add(before).cast(), length, libc::MADV_HUGEPAGE) };
    }
    block
}
