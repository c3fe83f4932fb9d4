//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// disk is a disk in memory that logs its writes and flushes. It is the only file of a FUSE file
// system. A power cut leaves what [disk.cut] returns.
type disk struct {
	fs.Inode

	mu    sync.Mutex
	start image // the content before the first entry of the log
	now   image
	log   []entry
}

// entry is a write, or a flush if data is nil.
type entry struct {
	at   int64
	data []byte
}

func newDisk(start image) *disk { return &disk{start: start, now: slices.Clone(start)} }

const imageName = "image"

// serve answers the requests of a FUSE connection, a file descriptor, until the guest unmounts it.
func (d *disk) serve(connection int) (*fuse.Server, error) {
	ours, err := unix.Dup(connection) // the server closes it
	if err != nil {
		return nil, err
	}
	root := &fs.Inode{}
	files := fs.NewNodeFS(root, &fs.Options{OnAdd: func(ctx context.Context) {
		file := root.NewPersistentInode(ctx, d, fs.StableAttr{Mode: syscall.S_IFREG})
		root.AddChild(imageName, file, true)
	}})
	server, err := fuse.NewServer(files, fmt.Sprintf("/dev/fd/%d", ours), nil)
	if err != nil {
		return nil, fmt.Errorf("serve the disk by FUSE: %w", err)
	}
	go server.Serve()
	return server, nil
}

// Open implements fs.NodeOpener. Direct I/O keeps the system from holding writes back.
func (d *disk) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

// Getattr implements fs.NodeGetattrer.
func (d *disk) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = syscall.S_IFREG|0o600, imageBytes
	return 0
}

// Read implements fs.NodeReader.
func (d *disk) Read(_ context.Context, _ fs.FileHandle, to []byte, at int64) (
	fuse.ReadResult, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	to = to[:max(0, min(int64(len(to)), imageBytes-at))]
	d.now.read(at, to)
	return fuse.ReadResultData(to), 0
}

// Write implements fs.NodeWriter.
func (d *disk) Write(_ context.Context, _ fs.FileHandle, data []byte, at int64) (
	uint32, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at+int64(len(data)) > imageBytes {
		return 0, syscall.ENOSPC
	}
	d.now.write(at, data)
	d.log = append(d.log, entry{at, bytes.Clone(data)})
	return uint32(len(data)), 0
}

// Fsync implements fs.NodeFsyncer. It is the flush of a disk: all writes that have returned before
// it survive a power cut.
func (d *disk) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, entry{})
	return 0
}

// position returns the number of entries in the log.
func (d *disk) position() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.log)
}

// The superblock of ext4 has two sectors. ext4 assumes that a disk writes both or none: it does not
// mount a file system whose superblock is torn.
const superblockAt, superblockBytes = 1024, 1024

// cut returns what a power cut after the first n entries of the log leaves: all writes before the
// last flush, and any part of the writes after it.
func (d *disk) cut(n int, rng *rand.Rand) image {
	log := d.log[:n]
	durable := 0
	for i, e := range log {
		if e.data == nil {
			durable = i
		}
	}
	chance := []float64{0, 1, 0.5, rng.Float64()}[rng.IntN(4)]
	kept := func() bool { return rng.Float64() < chance }
	m := slices.Clone(d.start)
	for i, e := range log {
		torn := i > durable && rng.IntN(3) == 0
		switch {
		case i < durable, !torn && kept():
			m.write(e.at, e.data)
		case torn:
			for at, left := e.at, e.data; len(left) > 0; {
				n := min(sectorBytes, len(left))
				if at == superblockAt {
					n = min(superblockBytes, len(left))
				}
				if kept() {
					m.write(at, left[:n])
				}
				at, left = at+int64(n), left[n:]
			}
		}
	}
	return m
}
