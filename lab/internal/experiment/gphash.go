package experiment

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/gphash"
	"github.com/weftgo/weft/internal/workload"
	"github.com/weftgo/weft/lab/internal/roofline"
)

// The experiments of the GPHash paper (Chen et al., "GPHash: An Efficient Hash Index for GPU with
// Byte-Granularity Persistent Memory") use pools in host memory. Host memory takes the place of
// persistent memory. Writes have the same order, but host memory is faster. Results are therefore
// compared only with figures of the paper that do not depend on the memory.

const gphashName = "gphash"

// hostMemory is a note on the memory, for the texts of these experiments.
const hostMemory = ` The pool is a file in /dev/shm where that has room for it, else in the folder for temporary
files: host memory stands in for persistent memory, and what an operation has done outlives the process, not the machine.
Batches come from Go slices and go back to them, by the host's clock. Values have 128 bytes.`

// valueSize is the size of the GPHash paper's values in bytes.
const valueSize = 128

// defaultBatch is the GPHash paper's number of operations per batch.
const defaultBatch = 1 << 12

// byteMap is an index that maps byte strings to byte strings, of weft or of a peer.
type byteMap interface {
	Put(ctx context.Context, keys, values []byte) (inserted int, err error)
	Get(ctx context.Context, keys, values []byte, found []bool) (hits int, err error)
	Delete(ctx context.Context, keys []byte, deleted []bool) (n int, err error)
	Apply(ctx context.Context, kinds []weft.OpKind, keys, values []byte, ok []bool) error
	Close() error
}

// gphashBytes returns the maximum memory per key. It covers two slots, the value, another value for
// the batch, and the columns.
func gphashBytes(keySize int) int { return 3*slotSize(keySize) + 3*(valueSize+8) + keySize }

func slotSize(keySize int) int {
	if keySize <= 8 {
		return 16
	}
	return 16 + (keySize+7)/8*8
}

// gphashOptions returns the options of an index for the given number of keys. Its pool is just
// large enough; by default a pool could grow fourfold.
func (r *runner) gphashOptions(keySize, keys, batch int) gphash.Options {
	levels := 24 * slotSize(keySize) * keys / 10 // for a load of .85, with up to twice the slots
	values := (valueSize + 8) * (keys + batch) / 10 * 11
	return gphash.Options{
		KeySize: keySize, ValueSize: valueSize, Capacity: keys, Size: int64(levels + values + loose(keys)),
		Seed: [2]uint64{r.Seed + 1, r.Seed + 2},
	}
}

// loose returns the memory that small levels and value regions leave unused, since they come in
// units of 1 MiB.
func loose(keys int) int { return (16 + keys>>16) << 20 }

// poolFolders returns the folders in which to create pools. The first is preferred.
func poolFolders() []string { return []string{"/dev/shm", os.TempDir()} }

// inPool creates a folder and calls create with the name of a pool in it. If the pool does not fit
// there, inPool tries the next folder. The caller removes the folder.
func inPool[T any](create func(path string) (T, error)) (made T, folder string, err error) {
	for _, parent := range poolFolders() {
		var dir string
		if dir, err = os.MkdirTemp(parent, "weft-bench-"); err != nil {
			continue
		}
		if made, err = create(filepath.Join(dir, "pool")); err == nil {
			return made, dir, nil
		}
		err = errors.Join(err, os.RemoveAll(dir))
		if !errors.Is(err, syscall.ENOSPC) {
			break
		}
	}
	return made, "", err
}

// unnamed makes a pool and removes its file name. The pool exists until it is closed or the process
// ends.
func unnamed[T any](create func(path string) (T, error)) (made T, err error) {
	made, folder, err := inPool(create)
	if err != nil {
		return made, err
	}
	return made, os.RemoveAll(folder)
}

func (r *runner) createIndex(o gphash.Options) (*gphash.Index, error) {
	return unnamed(func(path string) (*gphash.Index, error) { return gphash.Create(path, r.Device, o) })
}

// latencies returns the percentiles of the batches' times, and their sum.
func latencies(times []time.Duration) (*Latency, time.Duration) {
	sorted := slices.Sorted(slices.Values(times))
	at := func(share float64) float64 {
		return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)].Seconds()
	}
	sum := time.Duration(0)
	for _, t := range times {
		sum += t
	}
	return &Latency{P50: at(.5), P99: at(.99), Max: sorted[len(sorted)-1].Seconds()}, max(sum, 1)
}

func timed(structure, op string, keySize, n, batch int, times []time.Duration, limit string) Row {
	l, sum := latencies(times)
	return Row{
		Structure: structure, Op: op, KeyBits: 8 * keySize, ValueBits: 8 * valueSize, N: n, Batch: batch,
		Latency: l, Seconds: sum.Seconds(), OpsPerS: roofline.Rate(n, sum), Limit: limit,
	}
}

// poolRead, poolSwap and poolCopy return the names of the limits for work on a pool. On a CPU these
// are limits of memory. On a GPU they are limits of the bus, over which a read takes at least a
// line of a value.
func (r *runner) poolRead() string { return r.poolLimit(roofline.Read64, roofline.MappedRead128) }
func (r *runner) poolSwap() string { return r.poolLimit(roofline.CAS64, roofline.MappedCAS64) }

func (r *runner) poolCopy() string {
	if r.onGPU() {
		return roofline.HostToDevice
	}
	return roofline.Copy
}

// busRegion is the size of a region in which the bus limits a GPU's accesses. In larger regions,
// address translation does. Sorted batches access one such region at a time.
const busRegion = 256 << 20

func (r *runner) poolLimit(host, gpu string) string {
	if !r.onGPU() {
		return host
	}
	if poolLimit := roofline.In(gpu, busRegion); r.result.Limits[poolLimit] > 0 {
		return poolLimit
	}
	return gpu
}

// mixLimit returns the limit of a mix. A record read costs a random read of a line; a record
// written costs a compare-and-swap.
func (r *runner) mixLimit(m workload.Mix) string {
	writes := m.Update + m.Modify
	if m.InsertEvery > 0 {
		writes += (1 - writes) / float64(m.InsertEvery)
	}
	if writes == 0 {
		return r.poolRead()
	}
	return r.mixedLimit(r.poolRead(), r.poolSwap(), writes)
}

// gphashLimits measures the limits in a region as large as an index of n keys. On a GPU it also
// measures them in a part of that region, because address translation slows down scattered
// accesses.
func (r *runner) gphashLimits(ctx context.Context, n int) error {
	return r.poolLimits(ctx, n*(valueSize+slotSize(8)), roofline.Read64, roofline.CAS64)
}

// poolLimits measures the limits of host memory for work on any device.
func (r *runner) poolLimits(ctx context.Context, region int, names ...string) error {
	if !r.onGPU() {
		return r.limits(ctx, region, names...)
	}
	bus := []string{roofline.MappedRead32, roofline.MappedRead128, roofline.MappedCAS64}
	err := r.limits(ctx, region, append(bus, roofline.HostToDevice)...)
	if err == nil && region > busRegion {
		err = r.limitsIn(ctx, busRegion, bus...)
	}
	return err
}

// gphashKeys returns the number of keys, as far as memory suffices, and sets the common parameters.
func (r *runner) gphashKeys(cpu, gpu, keySize int) (int, error) {
	n, err := r.keys(cpu, gpu, gphashBytes(keySize))
	r.result.Parameters["keys"] = n
	r.result.Parameters["pools"] = "host memory"
	delete(r.result.Parameters, "runs") // rounds of many calls replace runs
	return n, err
}
