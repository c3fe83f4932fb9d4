package conformance

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/weftgo/weft"
	"github.com/weftgo/weft/device"
)

// Flaws that maps, sets and multimaps share.
const (
	failsEmpty          flaw = "a batch without operations is an error"
	hidesPrefix         flaw = "a cancelled call does not say what it did"
	overstates          flaw = "a cancelled call says that it did one operation more"
	leavesStale         flaw = "a cancelled call leaves what outputs held"
	pagesRepeat         flaw = "Pages have the first pair of each page twice"
	pagesLose           flaw = "Pages lose the last page"
	pagesHideErrors     flaw = "an iteration that is cancelled ends without an error"
	pagesShareError     flaw = "the error of one iteration ends all others"
	stopsLocked         flaw = "changes refuse after a loop that stopped"
	loopsDeadlock       flaw = "changes refuse while an iteration goes on"
	savesTwice          flaw = "Save writes a pair twice"
	savesShort          flaw = "Save does not write what follows the pairs"
	loadsDamaged        flaw = "Load does not look at checksums"
	loadsReadAhead      flaw = "Load reads beyond what Save wrote"
	loadReplacesAll     flaw = "Load removes what is there"
	saveHidesErrors     flaw = "Save hides the errors of its writer"
	compactLoses        flaw = "Compact loses a pair"
	onIgnoresCount      flaw = "On methods don't add their counts"
	onSetsCount         flaw = "On methods overwrite the count"
	onSkipsFlags        flaw = "On methods leave flags alone"
	onSkipsValues       flaw = "On methods leave values alone"
	onLosesLast         flaw = "On methods leave the last operation out"
	onTakesOtherDevices flaw = "On methods take what lies on other devices"
	onChecksKeysOnly    flaw = "On methods look at where keys lie, and no other column"
	onOverwrites        flaw = "On methods write a flag behind the batch"
	onTakesShort        flaw = "On methods take columns that are too short"
	onBackwards         flaw = "On methods run batches from their end"
	onLosesStream       flaw = "On methods lose the batch when the stream is another than before"
)

// referenceBase has the parts that references of all kinds share: pages, files, and batches on a
// CPU. It calls the methods for host batches.
type referenceBase[K weft.Key, V weft.Value] struct {
	flaw  flaw
	dev   device.Device
	pairs interface {
		hostPairs[K, V]
		// list returns all pairs.
		list(ctx context.Context) (keys []K, vals []V, err error)
	}
	iterating *atomic.Int64
	ended     *atomic.Bool
	pending   *atomic.Bool // a PutOn has not been waited for
	stream    *atomic.Pointer[device.Stream]
}

func newWhole[K weft.Key, V weft.Value](f flaw, dev device.Device) referenceBase[K, V] {
	return referenceBase[K, V]{f, dev, nil, new(atomic.Int64), new(atomic.Bool), new(atomic.Bool), new(atomic.Pointer[device.Stream])}
}

func (w *referenceBase[K, V]) begin(ctx context.Context, closed bool) error {
	if closed && w.flaw != reopens {
		return weft.ErrClosed
	}
	if w.flaw == ignoresContext {
		return nil
	}
	return ctx.Err()
}

const chunk = 50

// prefix returns how many rows of a batch to run, and an error if not all.
func (w *referenceBase[K, V]) prefix(ctx context.Context, closed bool, n int) (rows int, err error) {
	if closed && w.flaw != reopens {
		return 0, &weft.PartialError{Err: weft.ErrClosed}
	}
	if err := w.iterationError(); err != nil || n == 0 && w.flaw == failsEmpty {
		return 0, fmt.Errorf("not now: %w", err)
	}
	for rows < n {
		if err := ctx.Err(); err != nil && w.flaw != ignoresContext {
			p := &weft.PartialError{Done: rows, Err: err}
			switch w.flaw {
			case hidesPrefix:
				p.Done = 0
			case overstates:
				p.Done++
			}
			return rows, p
		}
		rows = min(rows+chunk, n)
	}
	if w.flaw == truncatesBatches {
		rows = min(rows, 255)
	}
	return rows, nil
}

func (w *referenceBase[K, V]) match(keys int, lengths ...int) {
	for _, n := range lengths {
		if n != keys && w.flaw != skipsLengths {
			panic(fmt.Sprintf("%d keys, but a column of %d", keys, n))
		}
	}
}

const pageRows = 64

// Pages iterates over the pairs present at the start.
func (w *referenceBase[K, V]) Pages(ctx context.Context) iter.Seq2[weft.Page[K, V], error] {
	return func(yield func(weft.Page[K, V], error) bool) {
		w.iterating.Add(1)
		defer w.iterating.Add(-1)
		keys, vals, err := w.pairs.list(ctx)
		for lo := 0; lo < len(keys) && err == nil; lo += pageRows {
			hi := min(lo+pageRows, len(keys))
			if w.flaw == pagesLose && hi == len(keys) {
				break
			}
			p := weft.Page[K, V]{Keys: keys[lo:hi:hi], Vals: vals[lo:hi:hi]}
			if w.flaw == pagesRepeat {
				p.Keys, p.Vals = append(p.Keys, p.Keys[0]), append(p.Vals, p.Vals[0])
			}
			if !yield(p, nil) {
				return
			}
			_, _, err = w.pairs.list(ctx)
			if w.ended.Load() && w.flaw == pagesShareError {
				err = context.Canceled
			}
		}
		if err != nil {
			w.ended.Store(true)
		}
		if err != nil && w.flaw != pagesHideErrors {
			yield(weft.Page[K, V]{}, err)
		}
	}
}

func (w *referenceBase[K, V]) endLoop() {
	if w.flaw == stopsLocked {
		w.iterating.Add(1)
	}
}

// iterationError returns the error of a change that cannot run alongside an iteration.
func (w *referenceBase[K, V]) iterationError() error {
	if (w.flaw == loopsDeadlock || w.flaw == stopsLocked) && w.iterating.Load() > 0 {
		return fmt.Errorf("an iteration goes on")
	}
	return nil
}

// ---- files: letters of the types, number of pairs, pairs, checksum -----------

func (w *referenceBase[K, V]) header(n int) []byte {
	var k K
	var v V
	return binary.LittleEndian.AppendUint64(fmt.Appendf(nil, "%8.8T%2d%8.8T%2d", k, unsafe.Sizeof(k), v, unsafe.Sizeof(v)), uint64(n))
}

func (w *referenceBase[K, V]) Save(ctx context.Context, to io.Writer) (int, error) {
	keys, vals, err := w.pairs.list(ctx)
	if err != nil {
		return 0, err
	}
	n := len(keys)
	if w.flaw == savesTwice && n > 0 {
		keys, vals = append(keys, keys[0]), append(vals, vals[0])
	}
	file := w.header(len(keys))
	for i, k := range keys {
		file = binary.LittleEndian.AppendUint64(file, uint64(k))
		file = binary.LittleEndian.AppendUint64(file, toBits(vals[i]))
	}
	if w.flaw != savesShort {
		file = binary.LittleEndian.AppendUint32(file, crc32.ChecksumIEEE(file))
	}
	if _, err = to.Write(file); w.flaw == saveHidesErrors {
		err = nil
	}
	return n, err
}

func (w *referenceBase[K, V]) Load(ctx context.Context, from io.Reader) (int, error) {
	if _, _, err := w.pairs.list(ctx); err != nil {
		return 0, err
	}
	if w.flaw == loadsReadAhead {
		all, err := io.ReadAll(from)
		if err != nil {
			return 0, err
		}
		from = bytes.NewReader(all)
	}
	part := func(n int) ([]byte, error) {
		b := make([]byte, n)
		_, err := io.ReadFull(from, b)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = weft.ErrFormat
		}
		return b, err
	}
	head, err := part(len(w.header(0)))
	if err != nil {
		return 0, err
	}
	n := int(binary.LittleEndian.Uint64(head[len(head)-8:]))
	if !bytes.Equal(head, w.header(n)) || n < 0 || n > 1<<20 {
		return 0, weft.ErrFormat
	}
	body, err := part(16 * n)
	if err != nil {
		return 0, err
	}
	sum, err := part(4)
	if err != nil {
		return 0, err
	}
	if binary.LittleEndian.Uint32(sum) != crc32.ChecksumIEEE(append(head, body...)) && w.flaw != loadsDamaged {
		return 0, weft.ErrFormat
	}
	keys, vals := make([]K, n), make([]V, n)
	for i := range keys {
		keys[i] = K(binary.LittleEndian.Uint64(body[16*i:]))
		vals[i] = fromBits[V](binary.LittleEndian.Uint64(body[16*i+8:]))
	}
	if w.flaw == loadReplacesAll {
		old, _, _ := w.pairs.list(ctx)
		if _, err := w.pairs.Delete(ctx, old, nil); err != nil {
			return 0, err
		}
	}
	_, err = w.pairs.Put(ctx, keys, vals)
	return n, err
}

func (w *referenceBase[K, V]) Compact(ctx context.Context) error {
	keys, _, err := w.pairs.list(ctx)
	if err == nil && w.flaw == compactLoses && len(keys) > 0 {
		_, err = w.pairs.Delete(ctx, keys[:1], nil)
	}
	return err
}

func (w *referenceBase[K, V]) Sync(ctx context.Context) error {
	w.pending.Store(false)
	return w.Check(ctx)
}

func (w *referenceBase[K, V]) Check(ctx context.Context) error {
	_, _, err := w.pairs.list(ctx)
	return err
}

// ---- batches on a CPU ------------------------------------------------------------

// submit checks the device of a batch, runs the batch, and adds its count to n.
func (w *referenceBase[K, V]) submit(s *device.Stream, n []device.Slice[uint64], places []device.Device, run func() (int, error)) error {
	bad := s == nil || s.Device() != w.dev || len(n) > 1
	if w.flaw == onChecksKeysOnly {
		places = places[:1]
	}
	for _, dev := range places {
		bad = bad || dev != nil && dev != w.dev
	}
	for _, c := range n {
		bad = bad || c.Len() > 0 && c.Device() != w.dev
	}
	if bad && w.flaw != onTakesOtherDevices {
		return device.ErrInvalid
	}
	if last := w.stream.Swap(s); w.flaw == onLosesStream && last != nil && last != s {
		return nil
	}
	got, err := run()
	if len(n) > 0 && n[0].Len() > 0 && w.flaw != onIgnoresCount {
		n[0].Host()[0] += uint64(got)
		if w.flaw == onSetsCount {
			n[0].Host()[0] = uint64(got)
		}
	}
	return err
}

func (w *referenceBase[K, V]) keysOf(keys device.Slice[K]) []K {
	if w.flaw == onLosesLast {
		return keys.Host()[:max(0, keys.Len()-1)]
	}
	return keys.Host()
}

// output returns the host memory of an output column with the given number of rows.
func output[T device.Elem](flaw, skips flaw, s device.Slice[T], rows int) []T {
	switch {
	case flaw == skips && flaw != none:
		return make([]T, rows)
	case flaw == onTakesShort && s.Len() > 0 && s.Len() < rows:
		return make([]T, rows)
	case flaw == onLosesLast && s.Len() > rows:
		return s.Host()[:rows]
	}
	return s.Host()
}

// inOrder runs a batch, or runs it in reverse order if the flaw requires that.
func (w *referenceBase[K, V]) inOrder(keys []K, vals []V, ok []bool, run func(keys []K, vals []V, ok []bool) (int, error)) (int, error) {
	reverse := func() { slices.Reverse(keys); slices.Reverse(vals); slices.Reverse(ok) }
	if w.flaw == onBackwards {
		reverse()
		defer reverse()
	}
	return run(keys, vals, ok)
}

func (w *referenceBase[K, V]) PutOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], n ...device.Slice[uint64]) error {
	k := w.keysOf(keys)
	return w.submit(s, n, []device.Device{keys.Device(), vals.Device()}, func() (int, error) {
		w.pending.Store(true)
		return w.inOrder(k, output(w.flaw, "", vals, len(k)), nil, func(k []K, v []V, _ []bool) (int, error) {
			return w.pairs.Put(context.Background(), k, v)
		})
	})
}

func (w *referenceBase[K, V]) PutNewOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool], n ...device.Slice[uint64]) error {
	k := w.keysOf(keys)
	return w.submit(s, n, []device.Device{keys.Device(), vals.Device(), ok.Device()}, func() (int, error) {
		return w.inOrder(k, output(w.flaw, "", vals, len(k)), output(w.flaw, onSkipsFlags, ok, len(k)), func(k []K, v []V, ok []bool) (int, error) {
			return w.pairs.PutNew(context.Background(), k, v, ok)
		})
	})
}

func (w *referenceBase[K, V]) GetOn(s *device.Stream, keys device.Slice[K], vals device.Slice[V], found device.Slice[bool], n ...device.Slice[uint64]) error {
	k := w.keysOf(keys)
	return w.submit(s, n, []device.Device{keys.Device(), vals.Device(), found.Device()}, func() (int, error) {
		return w.pairs.Get(context.Background(), k, output(w.flaw, onSkipsValues, vals, len(k)), output(w.flaw, onSkipsFlags, found, len(k)))
	})
}

func (w *referenceBase[K, V]) ContainsOn(s *device.Stream, keys device.Slice[K], found device.Slice[bool], n ...device.Slice[uint64]) error {
	k := w.keysOf(keys)
	return w.submit(s, n, []device.Device{keys.Device(), found.Device()}, func() (int, error) {
		return w.pairs.Contains(context.Background(), k, output(w.flaw, onSkipsFlags, found, len(k)))
	})
}

func (w *referenceBase[K, V]) DeleteOn(s *device.Stream, keys device.Slice[K], deleted device.Slice[bool], n ...device.Slice[uint64]) error {
	k := w.keysOf(keys)
	return w.submit(s, n, []device.Device{keys.Device(), deleted.Device()}, func() (int, error) {
		if w.flaw == onOverwrites && len(k)%32 == 1 {
			*(*bool)(unsafe.Add(unsafe.Pointer(&deleted.Host()[0]), len(k))) = true
		}
		return w.inOrder(k, nil, output(w.flaw, onSkipsFlags, deleted, len(k)), func(k []K, _ []V, ok []bool) (int, error) {
			return w.pairs.Delete(context.Background(), k, ok)
		})
	})
}

func (w *referenceBase[K, V]) ApplyOn(s *device.Stream, kinds device.Slice[weft.OpKind], keys device.Slice[K], vals device.Slice[V], ok device.Slice[bool]) error {
	if kinds.Len() != keys.Len() || vals.Len() != keys.Len() || ok.Len() != 0 && ok.Len() != keys.Len() {
		panic("columns of different length")
	}
	return w.submit(s, nil, []device.Device{keys.Device(), vals.Device(), ok.Device(), kinds.Device()}, func() (int, error) {
		n := len(w.keysOf(keys))
		ops, res := make([]weft.Op[K, V], n), make([]weft.Result[V], n)
		for i := range ops {
			ops[i] = weft.Op[K, V]{Kind: kinds.Host()[i], Key: keys.Host()[i], Value: vals.Host()[i]}
		}
		err := w.pairs.Apply(context.Background(), ops, res)
		for i, r := range res {
			if w.flaw != onSkipsValues {
				vals.Host()[i] = r.Value
			}
			if ok.Len() > 0 && w.flaw != onSkipsFlags {
				ok.Host()[i] = r.OK
			}
		}
		return 0, err
	})
}
