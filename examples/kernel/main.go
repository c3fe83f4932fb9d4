// Kernel sums up the sales of advertising campaigns by a kernel of its own, which filters, joins
// and sums in one pass, for
//
//	SELECT campaign, SUM(cents) FROM sales JOIN campaigns USING (customer)
//	WHERE cents >= 100 GROUP BY campaign
//
// A customer is in several campaigns: a slab.MultiMap. On a GPU kernel.cu does everything in one
// pass. On any device, weft's batches do the same one after another, with columns between them.
// docs/refs.md explains it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/slab"
)

//go:generate go run ../../cmd/weftgen -target 80+ptx83,90+ptx83 -type weft::slab::MultiRef=slab.Ref -type weft::linear::Ref=linear.Ref kernel.cu
//go:generate go run ../../cmd/weftgen -target 80+ptx83,90+ptx83 -type TotalParams=.totalParams draft.cu

// sales is a table in columns.
type sales struct {
	customer, cents []int64
}

// campaigns assigns customers to campaigns, one row for each pair.
type campaigns struct {
	customer []int64
	campaign []uint32
}

func main() {
	log.SetFlags(0)
	s := sales{customer: []int64{7, 42, 7, -1, 42, 7}, cents: []int64{500, 1999, 250, 800, 1, 1}}
	c := campaigns{customer: []int64{7, 42, 7, 99}, campaign: []uint32{1, 2, 3, 1}}
	if err := report(context.Background(), os.Stdout, s, c); err != nil {
		log.Fatal("kernel: ", err)
	}
}

// report prints the totals of campaigns 1 to 3.
func report(ctx context.Context, w io.Writer, s sales, c campaigns) (err error) {
	dev, _, err := auto.Open("auto")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	db, err := open(ctx, dev, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close()) }()

	counted, err := db.total(ctx, s, 100)
	if err != nil {
		return err
	}
	ids, cents, found := []uint32{1, 2, 3}, make([]int64, 3), make([]bool, 3)
	if _, err := db.totals.Get(ctx, ids, cents, found); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, counted, cents, found)
	return err
}

// database holds the tables and the kernel.
type database struct {
	dev       device.Device
	stream    *device.Stream
	campaigns *slab.MultiMap[int64, uint32]
	totals    *linear.Map[uint32, int64]
	kernel    device.Kernel // nil on a CPU
}

func open(ctx context.Context, dev device.Device, c campaigns) (_ *database, err error) {
	db := &database{dev: dev}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.close())
		}
	}()
	if db.stream, err = dev.NewStream(); err != nil {
		return nil, err
	}
	if db.campaigns, err = slab.NewMultiMap[int64, uint32](dev, nil); err != nil {
		return nil, err
	}
	if db.totals, err = linear.New[uint32, int64](dev, nil); err != nil {
		return nil, err
	}
	if _, err = db.campaigns.Put(ctx, c.customer, c.campaign); err != nil {
		return nil, err
	}
	return db, db.load(&kernelImage, "kernel_total")
}

// load loads a kernel of an image, unless the device is a CPU.
func (db *database) load(image *device.Image, name string) error {
	module, err := db.dev.Load(image)
	if errors.Is(err, device.ErrNoKernels) {
		return nil
	}
	if err == nil {
		db.kernel, err = module.Kernel(name)
	}
	return err
}

func (db *database) close() (err error) {
	if db.totals != nil {
		err = db.totals.Close()
	}
	if db.campaigns != nil {
		err = errors.Join(err, db.campaigns.Close())
	}
	if db.stream != nil {
		err = errors.Join(err, db.stream.Close())
	}
	return err
}

// total adds sales of at least least cents to the totals of their campaigns, and counts them.
func (db *database) total(ctx context.Context, s sales, least int64) (counted uint64, err error) {
	if db.kernel == nil {
		return db.totalByBatches(ctx, s, least)
	}
	customer, err := device.Make[int64](db.dev, len(s.customer))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, customer.Free()) }()
	cents, err := device.Make[int64](db.dev, len(s.cents))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, cents.Free()) }()
	count, err := device.Make[uint64](db.dev, 1)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, count.Free()) }()
	if err := errors.Join(
		db.stream.CopyIn(customer.Ptr(), device.Bytes(s.customer)),
		db.stream.CopyIn(cents.Ptr(), device.Bytes(s.cents)),
		db.stream.Fill(count.Ptr(), 0, 2),
	); err != nil {
		return 0, err
	}
	p := totalParams{customers: customer.Ptr(), cents: cents.Ptr(), counted: count.Ptr(), least: least, rows: uint32(len(s.cents))}
	// Sync reports campaigns that did not fit
	err = errors.Join(db.submit(ctx, &p), db.totals.Sync(ctx))
	out := make([]uint64, 1)
	err = errors.Join(err, db.stream.CopyOut(ctx, device.Bytes(out), count.Ptr()))
	return out[0], err
}

// mostCampaigns is the maximum number of campaigns.
const mostCampaigns = 1000

// submit launches the kernel, which reads one table and changes another.
func (db *database) submit(ctx context.Context, p *totalParams) error {
	return db.campaigns.View(ctx, db.stream, func(campaigns slab.Ref) error {
		return db.totals.Update(ctx, db.stream, mostCampaigns, func(totals linear.Ref) error {
			p.campaigns, p.totals = campaigns, totals
			grid, block := device.Dim{X: (int(p.rows) + 255) / 256}, device.Dim{X: 256}
			return device.Launch(db.stream, db.kernel, grid, block, p)
		})
	})
}

// totalByBatches does the same on any device.
func (db *database) totalByBatches(ctx context.Context, s sales, least int64) (uint64, error) {
	var customer, cents []int64
	for i, c := range s.cents {
		if c >= least {
			customer, cents = append(customer, s.customer[i]), append(cents, c)
		}
	}
	var of weft.Rows[uint32]
	if err := db.campaigns.GetAll(ctx, customer, &of); err != nil {
		return 0, err
	}
	var each []int64
	for i, c := range cents {
		for range of.Row(i) {
			each = append(each, c)
		}
	}
	_, err := db.totals.Reduce(ctx, of.Vals, each, weft.Sum)
	return uint64(len(cents)), err
}
