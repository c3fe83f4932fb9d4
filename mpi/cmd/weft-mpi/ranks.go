package main

import (
	"context"
	"errors"
	"os"
	"strconv"

	"github.com/weftgo/weft/mpi/comm"
	"github.com/weftgo/weft/mpi/comm/local"
	"github.com/weftgo/weft/mpi/comm/mpi"
	"github.com/weftgo/weft/mpi/comm/twolevel"
)

// maxLocal is the maximum number of ranks in this process. Each rank holds 8 bytes per pair of
// ranks, 1 GiB for all.
const maxLocal = 512

// errPeerFailed is the error of ranks that end because another rank has failed. That rank reports
// the reason.
var errPeerFailed = errors.New("another rank has failed")

// onRanks runs a job on the ranks that the MPI launcher has started, or on inProcess ranks in this
// process. It calls report with the error of a rank before that rank leaves MPI, because the
// launcher kills all ranks once one has ended with a status.
func onRanks(
	ctx context.Context, inProcess int,
	job func(ctx context.Context, c comm.Comm) error, report func(error) int,
) error {
	if inProcess > 0 {
		return onGoroutines(ctx, inProcess, job)
	}
	c, err := openMPI(ctx)
	if err != nil {
		return err
	}
	if err := job(ctx, c); err != nil {
		err = &reported{err, report(err)}
		return errors.Join(err, c.Close())
	}
	return c.Close()
}

// openMPI opens the group of all ranks. If all machines have the same number of ranks, small
// messages are first exchanged within machines.
func openMPI(ctx context.Context) (comm.Comm, error) {
	c, err := mpi.Open(ctx, nil)
	if err != nil {
		return nil, err
	}
	nLocal := uint64(ranksOfHost(c))
	lo, hi := []uint64{nLocal}, []uint64{nLocal}
	if err := c.AllReduce(ctx, comm.Min, lo); err != nil {
		return nil, err
	}
	if err := c.AllReduce(ctx, comm.Max, hi); err != nil {
		return nil, err
	}
	if lo[0] != hi[0] || uint64(c.Size())%nLocal != 0 {
		return c, nil
	}
	return twolevel.New(ctx, c, int(nLocal))
}

// onGoroutines runs a job on ranks in this process. It returns the error of the rank that failed
// first, not of the ranks that ended because of it.
func onGoroutines(
	ctx context.Context,
	ranks int,
	job func(ctx context.Context, c comm.Comm) error,
) error {
	errs := make(chan error, ranks)
	err := local.Run(ctx, ranks, func(ctx context.Context, c comm.Comm) error {
		err := job(ctx, c)
		if err != nil && !errors.Is(err, errPeerFailed) && !errors.Is(err, comm.ErrAborted) {
			errs <- err
		}
		return err
	})
	select {
	case err := <-errs:
		return err
	default:
		return err
	}
}

// ranksOfHost returns the number of ranks on this machine, according to the launcher's environment
// variables. Without them it returns the number of all ranks.
func ranksOfHost(c comm.Comm) int {
	for _, name := range []string{"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"} {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
			return min(n, c.Size())
		}
	}
	return c.Size()
}
