// Package alloc is SlabAlloc.
package alloc
