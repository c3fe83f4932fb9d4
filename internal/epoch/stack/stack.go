// Package stack is the smallest structure that needs package epoch. It is a stack (Treiber, 1986)
// that kernels push, pop and walk. Nodes are freed and reused in the same launch. The package
// exists only to test reclamation. If a node is reused while a block reads it, a pop removes the
// wrong node, or a walk reads a free node.
package stack

import (
	"context"
	"errors"
	"fmt"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/epoch"
)

//go:generate go run ../../../cmd/weftgen -loader=false -target 80+ptx83,90+ptx83 -type weft::EpochRef=internal/epoch.Ref stack.cu

// Options configures a stack.
type Options struct {
	Nodes  int
	Values int  // maximum number of pushes before Close
	Slots  int  // see epoch.Config
	Large  bool // bags hold 128 nodes in shared memory instead of 2
}

// Stack is a stack in device memory. Only one goroutine may use it at a time.
type Stack struct {
	opts    Options
	stream  *device.Stream
	run     [2]device.Kernel // kernels with small bags and with large bags
	collect device.Kernel
	epochs  *epoch.Reclaimer

	nodes device.Slice[uint64]
	// counters, head of the stack, a flag per node that is in use, and a flag per value that was
	// popped
	words  device.Slice[uint32]
	values int // number of values that all launches so far may push
}

const (
	smallBag, largeBag = 2, 128 // nodes per bag (stack.cu)

	headWord  = 4 // index in words, after the counters
	headWords = 32
	noNode    = ^uint32(0)
)

// New creates an empty stack.
func New(ctx context.Context, dev device.Device, opts Options) (_ *Stack, err error) {
	x := &Stack{opts: opts}
	defer func() {
		if err != nil {
			err = errors.Join(err, x.Close())
		}
	}()
	module, err := dev.Load(&stackImage)
	if err != nil {
		return nil, err
	}
	for i, name := range []string{"stack_run", "stack_runlarge"} {
		if x.run[i], err = module.Kernel(name); err != nil {
			return nil, err
		}
	}
	if x.collect, err = module.Kernel("stack_collect"); err != nil {
		return nil, err
	}
	if x.stream, err = dev.NewStream(); err != nil {
		return nil, err
	}
	if x.nodes, err = device.Make[uint64](dev, opts.Nodes); err != nil {
		return nil, err
	}
	if x.words, err = device.Make[uint32](dev, headWords+opts.Nodes+opts.Values); err != nil {
		return nil, err
	}
	bag := smallBag
	if opts.Large {
		bag = largeBag
	}
	x.epochs, err = epoch.New(x.stream, epoch.Config{Slots: opts.Slots, Nodes: opts.Nodes, Bag: bag, Collect: x.launchCollect})
	if err != nil {
		return nil, err
	}
	return x, errors.Join(
		x.stream.Fill(x.words.Ptr(), 0, x.words.Len()),
		x.stream.Fill(x.word(headWord), noNode, 1),
		x.stream.Sync(ctx))
}

func (x *Stack) word(i int) device.Ptr { return x.words.Sub(i, i+1).Ptr() }
func (x *Stack) used() device.Ptr      { return x.word(headWords) }

func (x *Stack) launchCollect(s *device.Stream, r epoch.Ref, stacks device.Ptr, n int) error {
	p := collectParams{epochs: r, used: x.used(), nodes: x.nodes.Ptr(), stacks: stacks, count: uint32(n)}
	return device.Launch(s, x.collect, device.Dim{X: (n + 31) / 32}, device.Dim{X: 32}, &p)
}

// Load describes a launch. In each of Groups groups of a block, every thread walks, pushes or pops.
type Load struct {
	Blocks, Threads, Groups int
	Walk                    int  // number of nodes in a walk
	Linger                  int  // number of reads before a walk
	Readers                 int  // number of blocks that only walk
	Ends                    bool // blocks end each group before the next one begins
}

// Run submits a launch to a stream.
func (x *Stack) Run(s *device.Stream, l Load) error {
	n := l.Blocks * l.Threads * l.Groups
	if x.values+n > x.opts.Values {
		return fmt.Errorf("stack: %d values more than %d", n, x.opts.Values-x.values)
	}
	p := runParams{
		epochs: x.epochs.Ref(), head: x.word(headWord), used: x.used(), nodes: x.nodes.Ptr(), seen: x.word(headWords + x.opts.Nodes),
		counts: x.word(0), n: uint32(x.opts.Nodes), groups: uint32(l.Groups), walk: uint32(l.Walk), first: uint32(x.values),
		linger: uint32(l.Linger), readers: uint32(l.Readers),
	}
	if l.Ends {
		p.ends = 1
	}
	run := x.run[0]
	if x.opts.Large {
		run = x.run[1]
	}
	x.values += n
	return device.Launch(s, run, device.Dim{X: l.Blocks}, device.Dim{X: l.Threads}, &p)
}

// Report is the result of Check.
type Report struct {
	Pushed, Popped int
	Refused        int // pushes that found no free node
	Used           int // nodes in use
	epoch.Counters
}

// Check returns an error if a launch used a free node, or if a node is lost. No launch may be
// running.
func (x *Stack) Check(ctx context.Context) (r Report, err error) {
	words, nodes := make([]uint32, headWords+x.opts.Nodes), make([]uint64, x.opts.Nodes)
	if err := errors.Join(
		x.stream.CopyOut(ctx, device.Bytes(words), x.words.Ptr()),
		x.stream.CopyOut(ctx, device.Bytes(nodes), x.nodes.Ptr())); err != nil {
		return r, err
	}
	if r.Counters, err = x.epochs.ReadCounters(ctx, x.stream); err != nil {
		return r, err
	}
	r.Pushed, r.Popped, r.Refused = int(words[0]), int(words[1]), int(words[3])
	used := words[headWords:]
	for _, u := range used {
		r.Used += int(u)
	}
	left := 0
	for id := words[headWord]; id != noNode; left++ {
		if int(id) >= len(used) || used[id] == 0 || left > len(used) {
			return r, fmt.Errorf("the stack has node %d, which is free, or has a cycle", id)
		}
		id = uint32(nodes[id] >> 32)
	}
	switch {
	case words[2] != 0:
		return r, fmt.Errorf("%d times a free node was used, or a node was popped twice", words[2])
	case left != r.Pushed-r.Popped:
		return r, fmt.Errorf("%d nodes in the stack, %d pushed and %d popped", left, r.Pushed, r.Popped)
	case uint64(r.Popped) != r.Retired:
		return r, fmt.Errorf("%d popped and %d retired", r.Popped, r.Retired)
	case uint64(r.Used) != uint64(left)+r.Pending()+r.Held:
		return r, fmt.Errorf("%d nodes in use, %d in the stack, %d retired and %d held", r.Used,
			left, r.Pending(), r.Held)
	}
	return r, nil
}

// Close frees the memory. No launch may be running.
func (x *Stack) Close() (err error) {
	if x.epochs != nil {
		err = x.epochs.Close()
	}
	if x.stream != nil {
		err = errors.Join(err, x.stream.Close())
	}
	return errors.Join(err, x.nodes.Free(), x.words.Free())
}
