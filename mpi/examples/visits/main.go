// Command visits counts visits of pages in a map that is spread over ranks: goroutines of this
// process, or the processes of an MPI job.
//
//	go run ./mpi/examples/visits -ranks 4
//	go build -o visits ./mpi/examples/visits && mpirun -n 4 ./visits
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device/auto"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/local"
	"github.com/weftgo/weft/mpi/comm/mpi"
	"github.com/weftgo/weft/mpi/shard"
)

func main() {
	ranks := flag.Int("ranks", 0, "ranks in this process; 0: those that the launcher of MPI starts")
	flag.Parse()
	var err error
	if *ranks > 0 {
		err = local.Run(context.Background(), *ranks, count)
	} else {
		err = mpi.Run(context.Background(), nil, count)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "visits:", err)
		os.Exit(1)
	}
}

// count is the body of each rank. All of them make the same calls, with batches of their own.
func count(ctx context.Context, c comm.Comm) error {
	host, err := cpu.Open(nil)
	if err != nil {
		return err
	}
	defer host.Close()
	dev, _, err := auto.Open("auto") // a GPU if the machine has one
	if err != nil {
		return err
	}
	defer dev.Close()
	own, err := linear.New[uint64, uint64](dev, nil) // of this rank's keys
	if err != nil {
		return err
	}
	ranks, err := shard.New(c, host)
	if err != nil {
		return err
	}
	visits := shard.NewMap(ranks, own)
	defer visits.Close()

	pages := []uint64{7, 42, 7, 1000 + uint64(c.Rank())} // that this rank has seen
	ones := []uint64{1, 1, 1, 1}
	if _, err := visits.Reduce(ctx, pages, ones, weft.Sum); err != nil {
		return err
	}
	counts := make([]uint64, len(pages))
	if _, err := visits.Get(ctx, pages, counts, nil); err != nil {
		return err
	}
	n, err := visits.Len(ctx) // of all ranks
	if err != nil || c.Rank() > 0 {
		return err
	}
	fmt.Println(n, "pages on", c.Size(), "ranks; page 7:", counts[0], "visits, page 42:", counts[1])
	return nil
}
