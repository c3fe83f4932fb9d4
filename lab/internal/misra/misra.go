// Package misra implements the hash table of linked lists that GPU hash tables are commonly
// compared with. It is the lock-free set of Misra and Chaudhuri ("Performance evaluation of
// concurrent lock-free data structures on GPUs", ICPADS 2012), with the lists of Harris and
// Michael. It is a peer in benchmarks and not meant for other use: a set never grows and never
// reuses a node.
//
// Memory is one array of 64-bit words: the heads of the buckets, and then the nodes. The upper half
// of a node is its 32-bit key. The lower half is the index of the next node and a mark of deletion.
// Zero is an empty head, because no list leads to word 0. Operation i of a batch owns the i-th
// remaining node, whether it inserts or not, so taking a node costs nothing. Each operation runs in
// one thread.
//
// This implementation differs from the original. Links are read by acquire and written by release
// operations, as today's memory model requires. A word is read and swapped as a whole, which saves
// a memory access per node. The hash is the hash of weft's tables.
package misra

import (
	"fmt"
	"math"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// Options set the size of a set.
type Options struct {
	// Buckets is the number of lists.
	Buckets int
	// Nodes is the number of operations that may run before the set must be cleared.
	Nodes int
	// Seed is the seed of the hash.
	Seed uint64
}

// Set is a set of 32-bit keys. Every key is allowed. Only one goroutine and one stream may use a
// set at a time.
type Set struct {
	dev   device.Device
	words device.Slice[uint64]
	opts  Options
	taken int // number of nodes taken
	// apply runs a batch. Operation i owns node first+i.
	apply func(s *device.Stream, b batch, first uint32) error
}

// batch is a mixed batch on the device.
type batch struct {
	kinds device.Slice[weft.OpKind]
	keys  device.Slice[uint32]
	ok    device.Slice[bool]
}

const (
	// maxWords is the maximum number of words. It leaves one bit of a 32-bit link for the mark.
	maxWords = math.MaxUint32 >> 1
	wordSize = 8
)

// New allocates a set. The caller must clear it before the first use.
func New(dev device.Device, opts Options) (*Set, error) {
	if opts.Buckets < 1 || opts.Nodes < 1 || opts.Nodes > maxWords-opts.Buckets {
		return nil, fmt.Errorf("misra: %w: %d buckets and %d nodes", weft.ErrOptions, opts.Buckets, opts.Nodes)
	}
	s := &Set{dev: dev, opts: opts}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("misra: %w", err)
	}
	return s, nil
}

func (s *Set) open() (err error) {
	if host, ok := s.dev.(device.Host); ok {
		s.apply = s.hostLaunch(host)
	} else if s.apply, err = s.gpuLaunch(); err != nil {
		return err
	}
	s.words, err = device.Make[uint64](s.dev, s.opts.Buckets+s.opts.Nodes)
	return err
}

// ApplyOn submits a mixed batch of OpGet, OpDelete, OpPut and OpPutNew. OpPut equals OpPutNew.
// Unless empty, ok receives the results as [weft.Result] defines them. If the batch has more
// operations than nodes remain, ApplyOn does nothing and returns weft.ErrFull.
func (s *Set) ApplyOn(stream *device.Stream, kinds device.Slice[weft.OpKind], keys device.Slice[uint32], ok device.Slice[bool]) error {
	n := keys.Len()
	if kinds.Len() != n || ok.Len() != n && ok.Len() != 0 {
		panic(fmt.Sprintf("misra: ApplyOn: %d keys, %d kinds, %d flags", n, kinds.Len(), ok.Len()))
	}
	if n > s.opts.Nodes-s.taken {
		return fmt.Errorf("misra: ApplyOn: %w: %d operations, %d of %d nodes are left", weft.ErrFull, n, s.opts.Nodes-s.taken, s.opts.Nodes)
	}
	if n == 0 {
		return nil
	}
	first := uint32(s.opts.Buckets + s.taken)
	s.taken += n
	if err := s.apply(stream, batch{kinds, keys, ok}, first); err != nil {
		return fmt.Errorf("misra: ApplyOn: %w", err)
	}
	return nil
}

// ClearOn submits clearing the set.
func (s *Set) ClearOn(stream *device.Stream) error {
	s.taken = 0
	return stream.Fill(s.words.Ptr(), 0, s.opts.Buckets*wordSize/4)
}

// Close frees the set. Work that uses the set must have ended.
func (s *Set) Close() error { return s.words.Free() }
