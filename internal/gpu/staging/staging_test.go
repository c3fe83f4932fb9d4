package staging_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/device/devicetest"
	"github.com/weftgo/weft/internal/batch"
	"github.com/weftgo/weft/internal/gpu/staging"
)

// newRing returns a ring with its own memory.
func newRing(t testing.TB, dev device.Device) *staging.Ring {
	return ringOf(t, dev, newMemory(t, dev, 0))
}

func ringOf(t testing.TB, dev device.Device, m *staging.Memory) *staging.Ring {
	r := staging.New(dev, m)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func newMemory(t testing.TB, dev device.Device, limit int) *staging.Memory {
	m := staging.NewMemory(dev, limit)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// echo is a batch that copies its input columns to its output columns on the device. It has two
// columns of each kind, and lacks another of each kind.
type echo struct {
	n       int
	widths  [2]int
	in, out [2][]byte

	mu     sync.Mutex
	pieces []piece
	fail   func(piece int) error // called before each launch
}

// piece is the rows of a piece.
type piece struct{ Lo, N int }

func newEcho(n int, widths ...int) *echo {
	e := &echo{n: n, widths: [2]int(widths)}
	rng := rand.NewChaCha8([32]byte{byte(n)})
	for i, w := range widths {
		e.in[i], e.out[i] = make([]byte, n*w), make([]byte, n*w)
		rng.Read(e.in[i])
	}
	return e
}

func (e *echo) batch() *batch.Batch {
	return &batch.Batch{N: e.n, Columns: batch.Columns{
		batch.Keys:   batch.Input(e.in[0]).WithWidth(e.widths[0]),
		batch.Vals:   batch.Input(e.in[1]).WithWidth(e.widths[1]),
		batch.Out:    batch.Output(e.out[0]).WithWidth(e.widths[0]),
		batch.OK:     batch.Optional([]bool(nil)),
		batch.Counts: batch.Output(e.out[1]).WithWidth(e.widths[1]),
	}}
}

func (e *echo) launch(p *staging.Piece) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fail != nil {
		if err := e.fail(len(e.pieces)); err != nil {
			return err
		}
	}
	e.pieces = append(e.pieces, piece{p.Lo, p.Batch.N})
	c := p.Batch.Columns
	for role, column := range c {
		there := role == int(batch.Keys) || role == int(batch.Vals) || role == int(batch.Out) || role == int(batch.Counts)
		if there != (column.Ptr != 0) || column.Host != nil {
			return fmt.Errorf("the %v are at %#x, with %d bytes on the host", batch.Role(role), column.Ptr, len(column.Host))
		}
	}
	return errors.Join(
		p.Stream.Copy(c[batch.Out].Ptr, c[batch.Keys].Ptr, p.Batch.N*e.widths[0]),
		p.Stream.Copy(c[batch.Counts].Ptr, c[batch.Vals].Ptr, p.Batch.N*e.widths[1]))
}

// run runs the batch on a ring, optionally in the order of its pieces.
func (e *echo) run(ctx context.Context, r *staging.Ring, inOrder bool) (int, error) {
	if inOrder {
		return r.RunInOrder(ctx, e.batch(), e.launch)
	}
	return r.Run(ctx, e.batch(), e.launch)
}

// arrived fails unless the output of the first rows is present.
func (e *echo) arrived(t testing.TB, rows int) {
	t.Helper()
	for i, w := range e.widths {
		if !bytes.Equal(e.out[i][:rows*w], e.in[i][:rows*w]) {
			t.Fatalf("column %d of %d rows differs", i, rows)
		}
	}
}

// Input equals output, in pieces that cover the batch once.
func TestRoundTrip(t *testing.T) {
	dev := devicetest.Open(t)
	r := newRing(t, dev)
	for _, inOrder := range []bool{false, true} {
		for _, n := range []int{0, 1, 2, 31, 255, 256, 257, 10_000, 1 << 20, 1<<20 + 1, 2_345_678} {
			t.Run(fmt.Sprintf("%d rows, in order %v", n, inOrder), func(t *testing.T) {
				e := newEcho(n, 8, 1)
				if done, err := e.run(t.Context(), r, inOrder); done != n || err != nil {
					t.Fatalf("%d rows done of %d: %v", done, n, err)
				}
				e.arrived(t, n)
				covered := map[int]int{}
				for i, p := range e.pieces {
					covered[p.Lo] = p.N
					if inOrder && i > 0 && p.Lo <= e.pieces[i-1].Lo {
						t.Errorf("piece %d begins at row %d, the one before at %d", i, p.Lo, e.pieces[i-1].Lo)
					}
				}
				at, pieces := 0, 0
				for at < n && covered[at] > 0 {
					at += covered[at]
					pieces++
				}
				if at != n || pieces != len(e.pieces) {
					t.Errorf("%d pieces cover %d rows of %d: %v", pieces, at, n, e.pieces)
				}
			})
		}
	}
}

// Columns in page-locked memory travel the same way, together with others.
func TestPinnedColumns(t *testing.T) {
	dev := devicetest.Open(t)
	r := newRing(t, dev)
	for which := range 16 { // any of the four columns
		e := newEcho(500_000, 8, 4)
		for i, column := range []*[]byte{&e.in[0], &e.in[1], &e.out[0], &e.out[1]} {
			if which>>i&1 == 0 {
				continue
			}
			pinned, err := dev.AllocHost(len(*column))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := dev.FreeHost(pinned); err != nil {
					t.Error(err)
				}
			}()
			copy(pinned, *column)
			*column = pinned
		}
		if done, err := e.run(t.Context(), r, which%2 == 0); done != e.n || err != nil {
			t.Fatalf("columns %04b pinned: %d rows done of %d: %v", which, done, e.n, err)
		}
		e.arrived(t, e.n)
	}
}

// A whole piece may have any size, and may be filled in part.
func TestRunWhole(t *testing.T) {
	dev := devicetest.Open(t)
	r := newRing(t, dev)
	for _, n := range []int{1, 1000, 3_000_000} {
		keys, flags := make([]byte, 4*n), make([]byte, n)
		launches := 0
		b := &batch.Batch{N: n, Columns: batch.Columns{batch.Keys: batch.Output(keys).WithWidth(4), batch.OK: batch.Output(flags)}}
		done, err := r.RunWhole(t.Context(), b, func(p *staging.Piece) error {
			launches++
			c := p.Batch.Columns
			if p.Lo != 0 || p.Batch.N != n || c[batch.Vals].Given() {
				return fmt.Errorf("piece %+v", p)
			}
			return errors.Join(p.Stream.Fill(c[batch.Keys].Ptr, 0x01020304, n), p.Stream.Fill(c[batch.OK].Ptr, 0x07070707, n/4))
		})
		if done != n || launches != 1 || err != nil {
			t.Fatalf("%d rows of %d in %d launches: %v", done, n, launches, err)
		}
		if keys[4*n-1] != 1 || keys[0] != 4 {
			t.Errorf("%d rows: keys begin with %v and end with %v", n, keys[:4], keys[4*n-4:])
		}
		if n >= 4 && flags[n/4*4-1] != 7 {
			t.Errorf("%d rows: flags are %v", n, flags[:4])
		}
	}
}

func TestCancelled(t *testing.T) {
	dev := devicetest.Open(t)
	r := newRing(t, dev)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, n := range []int{0, 1, 1_000_000} {
		e := newEcho(n, 8, 4)
		if done, err := e.run(ended, r, false); done != 0 || len(e.pieces) != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("%d rows with an ended context: %d done in %d pieces, %v", n, done, len(e.pieces), err)
		}
	}
	// In the middle of a batch, some but not all rows are done, and these have arrived.
	for _, inOrder := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		e := newEcho(8_000_000, 8, 4)
		e.fail = func(piece int) error {
			if piece == 3 {
				cancel()
			}
			return nil
		}
		done, err := e.run(ctx, r, inOrder)
		if done == e.n || !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled in the fourth piece: %d rows of %d done, %v", done, e.n, err)
		}
		e.arrived(t, done)
		usable(t, r)
	}
}

// usable fails unless a ring still works.
func usable(t testing.TB, r *staging.Ring) {
	t.Helper()
	e := newEcho(200_000, 8, 4)
	if done, err := e.run(context.Background(), r, true); done != e.n || err != nil {
		t.Fatalf("afterwards %d rows of %d: %v", done, e.n, err)
	}
	e.arrived(t, e.n)
}

func TestLaunchFails(t *testing.T) {
	dev := devicetest.Open(t)
	r := newRing(t, dev)
	broken := errors.New("broken")
	for _, inOrder := range []bool{false, true} {
		for at := range 4 {
			e := newEcho(1_500_000, 8, 4)
			e.fail = func(piece int) error {
				if piece == at {
					return broken
				}
				return nil
			}
			done, err := e.run(t.Context(), r, inOrder)
			if done == e.n || !errors.Is(err, broken) {
				t.Errorf("launch %d failed: %d rows of %d done, %v", at, done, e.n, err)
			}
			e.arrived(t, done)
			usable(t, r)
		}
	}
}

// If any operation of the device fails, Run returns the error, the rows done have arrived, and the
// ring works again.
func TestEveryOperationFailsOnce(t *testing.T) {
	dev := devicetest.Open(t)
	for _, inOrder := range []bool{false, true} {
		for n := 0; ; n++ {
			m := staging.NewMemory(dev, 0)
			r := staging.New(dev, m)
			fired := devicetest.FailAfter(dev, n)
			e := newEcho(400_000, 8, 4)
			done, err := e.run(t.Context(), r, inOrder)
			devicetest.ClearFailures(dev)
			over := !fired()
			if over && (done != e.n || err != nil) || !over && !errors.Is(err, device.ErrMemory) {
				t.Fatalf("operation %d failed: %d rows of %d done, %v", n, done, e.n, err)
			}
			e.arrived(t, done)
			usable(t, r)
			if err := errors.Join(r.Close(), m.Close()); err != nil {
				t.Fatal(err)
			}
			if live := devicetest.Live(dev); live != (devicetest.Counts{}) {
				t.Fatalf("operation %d failed; after Close there are %+v", n, live)
			}
			if over {
				break
			}
		}
	}
}
