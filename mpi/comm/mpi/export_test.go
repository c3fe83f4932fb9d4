package mpi

import "github.com/weftgo/weft/mpi/comm"

// SetMaxBytes sets the bound of a transfer, so that small transfers take several rounds.
func SetMaxBytes(n int) { maxBytes = n }

// SendToNone sends to a rank that does not exist, which MPI reports as an error.
func SendToNone(c comm.Comm) {
	r := c.(*rank)
	r.thread.Do(func() { r.sendReceive(r.size+5, nil, r.rank, nil) })
}
