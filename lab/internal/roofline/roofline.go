// Package roofline measures the maximum performance of a device's memory: random reads,
// compare-and-swaps, copies, and launches. Experiments measure these limits in the same run as a
// structure, and report each rate as a share of its limit. Unlike a time, a share means the same on
// every machine.
//
// Every random operation reads an 8-byte query and hashes it to an address in the region. A read
// also writes an 8-byte result. A batch of lookups needs at least these accesses. Each limit is the
// best rate over several numbers of accesses in flight. The rate for each number is the median of
// several runs after a warm-up.
package roofline

import (
	"context"
	"fmt"
	"slices"

	"github.com/weftgo/weft/device"
)

// Names of the limits, which are the keys of [Result.Limits]. Random accesses are in operations per
// second, copies in bytes per second, and launches in launches per second.
const (
	Read16 = "read16" // GPU: random 16-byte reads, one thread each
	Read32 = "read32" // GPU: random 32-byte reads, 2 threads x 16 bytes
	// random 64-byte reads; GPU: 4 threads x 16 bytes; CPU: cache lines, all cores
	Read64  = "read64"
	Read128 = "read128" // GPU: random 128-byte reads, 4 threads x 2 x 16 bytes
	CAS64   = "cas64"   // random 8-byte compare-and-swaps in cleared memory; CPU: all cores
	CAS128  = "cas128"  // CAS64 with 16 bytes; GPUs of compute capability 9.0 and newer

	MappedRead32  = "mapped_read32"  // GPU: Read32 in mapped page-locked host memory
	MappedRead128 = "mapped_read128" // GPU: Read128 in mapped host memory
	MappedCAS64   = "mapped_cas64"   // GPU: CAS64 in mapped host memory

	Copy = "copy" // copy within the device, bytes read plus bytes written
	Fill = "fill" // overwrite with a pattern, bytes written

	Launch     = "launch"      // GPU: empty kernels submitted one after another
	LaunchSync = "launch_sync" // submit an empty piece of work and wait for it

	HostToDevice = "host_to_device" // GPU: copy from page-locked host memory
	DeviceToHost = "device_to_host" // GPU: copy to page-locked host memory
	HostBoth     = "host_both"      // GPU: both directions at once, sum of both

	Read64OneCore = "read64_1core" // CPU: Read64 by one core
	CAS64OneCore  = "cas64_1core"  // CPU: CAS64 by one core
	CopyOneCore   = "copy_1core"   // CPU: Copy by one core
)

// Unit returns the unit of a limit: "op/s", "B/s" or "launch/s".
func Unit(limit string) string {
	limit, _ = Split(limit)
	switch limit {
	case Copy, CopyOneCore, Fill, HostToDevice, DeviceToHost, HostBoth:
		return "B/s"
	case Launch, LaunchSync:
		return "launch/s"
	}
	return "op/s"
}

// Describe returns a short description of a limit.
func Describe(limit string) string {
	if all, region := Split(limit); region > 0 {
		return Describe(all) + " in " + limit[len(all)+1:]
	}
	switch limit {
	case Read16, Read32, Read64, Read128:
		return "random reads of " + limit[len("read"):] + " bytes"
	case CAS64, CAS128:
		return "random compare-and-swaps of " + limit[len("cas"):] + " bits"
	case MappedRead32, MappedRead128:
		return "random reads of " + limit[len("mapped_read"):] + " bytes of mapped host memory"
	case MappedCAS64:
		return "random compare-and-swaps of 64 bits in mapped host memory"
	case Read64OneCore:
		return "random reads of 64 bytes by one core"
	case CAS64OneCore:
		return "random compare-and-swaps of 64 bits by one core"
	case Copy:
		return "copy within the device, read plus written"
	case CopyOneCore:
		return "copy by one core, read plus written"
	case Fill:
		return "fill with a pattern"
	case Launch:
		return "empty kernels submitted one after another"
	case LaunchSync:
		return "empty work submitted and waited for"
	case HostToDevice:
		return "copy from page-locked host memory"
	case DeviceToHost:
		return "copy to page-locked host memory"
	case HostBoth:
		return "copies both ways at once, sum"
	}
	return limit
}

// Names returns the limits of a device in display order.
func Names(p device.Properties) []string {
	if p.Kind == device.CPU {
		return []string{Read64OneCore, Read64, CAS64OneCore, CAS64, CopyOneCore, Copy, Fill, LaunchSync}
	}
	names := []string{Read16, Read32, Read64, Read128, CAS64}
	if p.Arch >= 90 {
		names = append(names, CAS128)
	}
	return append(names, Copy, Fill, Launch, LaunchSync, HostToDevice, DeviceToHost, HostBoth, MappedRead32, MappedRead128, MappedCAS64)
}

// Options configure [Measure]. The zero value measures all limits at the default size.
type Options struct {
	// Region is the size of the accessed memory in bytes. Choose about the size of the table to
	// compare. The default is 4 GiB on a GPU and 320 MB on a CPU. Measure uses at most 40 % of the
	// device's free memory.
	Region int
	// Ops is the number of random operations per run. The default is 10^8 on a GPU and 2^21 on a
	// CPU, or fewer if memory is short.
	Ops int
	// Runs is the number of timed runs. The default is 5. The median counts.
	Runs int
	// Only names the limits to measure. The default is all limits of the device. Other names are
	// ignored.
	Only []string
}

// Result is the result of a measurement.
type Result struct {
	Region int                `json:"region_bytes"` // size in use
	Ops    int                `json:"ops_per_run"`  // random operations per run
	Runs   int                `json:"runs"`         // runs per median
	Limits map[string]float64 `json:"limits"`       // limits by name
	// accesses in flight per thread at the limit
	Flight map[string]int `json:"best_in_flight"`
}

// Measure measures the limits of dev. It returns errors of the device, such as device.ErrMemory. It
// checks ctx between runs.
func Measure(ctx context.Context, dev device.Device, opts *Options) (*Result, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Region < 0 || o.Ops < 0 || o.Runs < 0 {
		return nil, fmt.Errorf("roofline: %w: negative region, operations or runs in %+v", device.ErrInvalid, o)
	}
	if err := o.setDefaults(dev); err != nil {
		return nil, err
	}
	m := &meter{
		dev: dev, opts: o,
		selection: Names(dev.Properties()),
		result:    &Result{Region: o.Region, Ops: o.Ops, Runs: o.Runs, Limits: map[string]float64{}, Flight: map[string]int{}},
	}
	if o.Only != nil {
		m.selection = slices.DeleteFunc(m.selection, func(name string) bool { return !slices.Contains(o.Only, name) })
	}
	var err error
	if host, ok := dev.(device.Host); ok {
		err = m.measureCPU(ctx, host)
	} else {
		err = m.measureGPU(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("roofline: %w", err)
	}
	return m.result, nil
}

// blockOps is the maximum number of queries per block. The number of operations is a multiple of
// blockOps, so kernels need no bounds checks.
const blockOps = 256 * 8

// setDefaults replaces zeros by defaults, and reduces sizes to fit the device's memory.
func (o *Options) setDefaults(dev device.Device) error {
	region, ops := 4<<30, 100_000_000
	if _, ok := dev.(device.Host); ok {
		region, ops = 320_000_000, 1<<21
	}
	if o.Region == 0 {
		o.Region = region
	}
	if o.Ops == 0 {
		o.Ops = ops
	}
	if o.Runs == 0 {
		o.Runs = 5
	}
	mem, err := dev.Memory()
	if err != nil {
		return fmt.Errorf("roofline: %w", err)
	}
	if mem.Free > 0 { // 0 if the host does not report it
		o.Region = min(o.Region, int(mem.Free/10*4))
		o.Ops = min(o.Ops, int(mem.Free/4/16)) // a query and a result per operation
	}
	o.Region = max(o.Region/256*256, 256)
	o.Ops = max(o.Ops/blockOps*blockOps, blockOps)
	return nil
}

// meter is a measurement in progress.
type meter struct {
	dev       device.Device
	opts      Options
	selection []string
	result    *Result
}

func (m *meter) selected(limit string) bool { return slices.Contains(m.selection, limit) }

func (m *meter) selectedAny(limits ...string) bool { return slices.ContainsFunc(limits, m.selected) }

// record stores the rate of a limit, and the number in flight, if it is the best so far.
func (m *meter) record(limit string, rate float64, flight int) {
	if rate > m.result.Limits[limit] {
		m.result.Limits[limit] = rate
		m.result.Flight[limit] = flight
	}
}
