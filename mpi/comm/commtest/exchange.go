package commtest

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/device/sim"
	"github.com/weftgo/weft/mpi/comm"
)

// exchange is a random exchange. All ranks construct the same one.
type exchange struct {
	seed  uint64
	size  int
	bytes [][]int64 // bytes[i][j] is the number of bytes that rank i sends to rank j
}

// newExchange returns an exchange with random parts. Some parts are empty, some ranks send nothing,
// and one part has four times the maximum length of the others, most.
func newExchange(seed uint64, size, most int) exchange {
	random := rand.New(rand.NewPCG(seed, uint64(size)))
	e := exchange{seed, size, make([][]int64, size)}
	for from := range e.bytes {
		e.bytes[from] = make([]int64, size)
		if random.IntN(8) == 0 {
			continue
		}
		for to := range e.bytes[from] {
			if random.IntN(3) != 0 {
				e.bytes[from][to] = random.Int64N(int64(most))
			}
		}
	}
	e.bytes[random.IntN(size)][random.IntN(size)] = 4 * int64(most)
	return e
}

// sends and receives return the lengths of the parts that a rank sends and receives.
func (e exchange) sends(rank int) []int64 { return e.bytes[rank] }

func (e exchange) receives(rank int) []int64 {
	parts := make([]int64, e.size)
	for from := range parts {
		parts[from] = e.bytes[from][rank]
	}
	return parts
}

// part appends the bytes that one rank sends to another.
func (e exchange) part(b []byte, from, to int) []byte {
	start := mix(from, to) ^ e.seed
	for i := range e.bytes[from][to] {
		b = append(b, byte(start+uint64(i)+uint64(i)>>8))
	}
	return b
}

func (e exchange) sent(rank int) (b []byte) {
	for to := range e.size {
		b = e.part(b, rank, to)
	}
	return b
}

func (e exchange) want(rank int) (b []byte) {
	for from := range e.size {
		b = e.part(b, from, rank)
	}
	return b
}

// check compares the bytes that a rank has received, and checks that the slack after them is
// unchanged.
func (e exchange) check(rank int, recv []byte) error {
	want := e.want(rank)
	for i, v := range recv {
		if i < len(want) && v != want[i] {
			return fmt.Errorf("AllToAllV %d: byte %d of %d is %#x, want %#x", e.seed, i, len(want), v, want[i])
		}
		if i >= len(want) && v != mark {
			return fmt.Errorf("AllToAllV %d: byte %d is written, after the %d of the parts", e.seed, i, len(want))
		}
	}
	return nil
}

// A receive buffer has slack bytes with value mark after the parts, which an exchange must not
// change.
const (
	mark  = 0xa5
	slack = 13
)

// received returns a buffer for the parts that a rank receives.
func (e exchange) received(rank int) []byte {
	n := int64(slack)
	for _, bytes := range e.receives(rank) {
		n += bytes
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = mark
	}
	return b
}

func allToAllV(ctx context.Context, c comm.Comm) error {
	for seed := range uint64(12) {
		// Later exchanges have parts of some hundred KiB.
		e := newExchange(seed, c.Size(), 50<<(seed%4*4)/c.Size()+1)
		recv := e.received(c.Rank())
		err := c.AllToAllV(ctx, comm.Host(e.sent(c.Rank())), e.sends(c.Rank()), comm.Host(recv), e.receives(c.Rank()))
		if err == nil {
			err = e.check(c.Rank(), recv)
		}
		if err != nil {
			return err
		}
	}
	none := make([]int64, c.Size())
	return c.AllToAllV(ctx, comm.Buf{}, none, comm.Buf{}, none)
}

// allToAllVOnDevices exchanges between memory of two kinds of devices and of the host. The
// simulated device behaves like a GPU: the host cannot address its memory.
func allToAllVOnDevices(ctx context.Context, c comm.Comm) error {
	host, err := cpu.Open(nil)
	if err != nil {
		return err
	}
	defer host.Close()
	gpu, err := sim.Open(nil)
	if err != nil {
		return err
	}
	defer gpu.Close()
	devices := []device.Device{host, gpu, nil}
	for seed := range uint64(6) {
		e := newExchange(seed, c.Size(), 2000/c.Size()+1)
		// Ranks use different kinds of memory. Some send from one kind and receive in another.
		from := devices[(int(seed)+c.Rank())%3]
		to := devices[(int(seed)/2+c.Rank())%3]
		if err := exchangeOn(ctx, c, e, from, to); err != nil {
			return err
		}
	}
	return nil
}

// exchangeOn exchanges from memory of one device to memory of another. A nil device is the host.
func exchangeOn(ctx context.Context, c comm.Comm, e exchange, from, to device.Device) error {
	recv := e.received(c.Rank())
	sendBuf, closeSend, err := upload(from, e.sent(c.Rank()))
	if err != nil {
		return err
	}
	defer closeSend()
	recvBuf, closeRecv, err := upload(to, recv)
	if err != nil {
		return err
	}
	defer closeRecv()
	if err := c.AllToAllV(ctx, sendBuf, e.sends(c.Rank()), recvBuf, e.receives(c.Rank())); err != nil {
		return err
	}
	if to != nil {
		if err := recvBuf.On.CopyTo(ctx, recvBuf.Stream, recv); err != nil {
			return err
		}
	}
	return e.check(c.Rank(), recv)
}

// upload copies bytes to a buffer on a device, and returns a function that frees it. A nil device
// is the host.
func upload(dev device.Device, b []byte) (comm.Buf, func(), error) {
	if dev == nil {
		return comm.Host(b), func() {}, nil
	}
	stream, err := dev.NewStream()
	if err != nil {
		return comm.Buf{}, nil, err
	}
	on, err := device.Upload(stream, b)
	if err != nil {
		stream.Close()
		return comm.Buf{}, nil, err
	}
	return comm.Buf{On: on, Stream: stream}, func() { stream.Close(); on.Free() }, nil
}
