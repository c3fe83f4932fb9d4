package baseline

import (
	"fmt"
	"runtime"

	"github.com/weftgo/weft/device"
	"github.com/weftgo/weft/internal/hash"
	"github.com/weftgo/weft/internal/pm"
)

// slab is a slab hash (Ashkiani, Farach-Colton and Owens, "A Dynamic Hash Table for the GPU", IPDPS
// 2018) that survives crashes by an undo log, like the GPHash paper's port. A bucket is a chain of
// slabs that have seven slots each. A slot holds a key and the address of its value. A search
// compares whole keys, one after the other. Before an operation changes words of a slot or of a
// value, it logs them durably. Other threads must not see a change that may be undone, so an
// operation locks the bucket while it changes it.
//
// Chains grow, but the number of buckets does not. The paper's version enlarges the table at a load
// of .8, which a comparison with a constant number of keys does not reach.
type slab struct {
	mem       *pm.Memory
	keySize   int
	valueSize int
	seed      uint64
	logs      []undo // one per thread
	logWords  uint64 // words per log
	buckets   uint64
	first     uint64 // first word of the buckets' slabs
	slabs     units  // slabs beyond the first of each bucket
	values    units
	locks     device.Ptr // locks of buckets, if a GPU runs the batches
}

// A slab begins with a lock, which is used in the first slab of a bucket, and the address of the
// next slab, or 0. Then follow the addresses of the slots' values, 0 for free slots, and then the
// keys.
const (
	slabSlots = 7
	lockWord  = 0
	linkWord  = 1
	slotsWord = 2
	keysWord  = slotsWord + slabSlots

	slabLoad = 0.8 // keys per slot in the first slabs of buckets
)

// CreateSlab creates a slab hash in a new pool.
func CreateSlab(path string, o Options) (*Index, error) {
	o.Size += pm.Word * int64(newSlab(nil, 0, 0, nThreads(o), o).first)
	return create(path, o, func(mem *pm.Memory, first, end uint64, threads int) (gpuTable, error) {
		t := newSlab(mem, first, end, threads, o)
		if t.values.n == 0 {
			return nil, fmt.Errorf("%w by %d buckets, %d slabs and %d logs", errNoSpace, t.buckets, t.slabs.n, threads)
		}
		t.recover()
		return t, nil
	})
}

// newSlab returns a slab hash in words [first,end), which are zero or contain the state after a
// crash.
func newSlab(mem *pm.Memory, first, end uint64, threads int, o Options) *slab {
	t := &slab{mem: mem, keySize: o.KeySize, valueSize: o.ValueSize, seed: o.Seed, logs: make([]undo, threads)}
	// More entries than any operation needs.
	entries := slabSlots*t.keyWords() + pm.WordsOf(o.ValueSize) + 2*slabSlots
	t.logWords = (1 + 2*entries + 7) / 8 * 8 // whole lines
	for i := range t.logs {
		t.logs[i] = undo{mem: mem, at: first, off: o.NoLog}
		first += t.logWords
	}
	t.first = (first + 15) / 16 * 16
	t.buckets = uint64(float64(o.Capacity)/slabLoad/slabSlots) + 1
	words := t.slabWords()
	t.slabs = units{first: t.first + t.buckets*words, words: words, n: 2 * (t.buckets + refillUnits)}
	values := t.slabs.first + t.slabs.n*words
	t.values = units{first: values, words: pm.WordsOf(o.ValueSize)}
	if end > values {
		t.values.n = (end - values) / t.values.words
	}
	return t
}

func (t *slab) keyWords() uint64 { return pm.WordsOf(t.keySize) }

func (t *slab) slabWords() uint64 { return (keysWord + slabSlots*t.keyWords() + 7) / 8 * 8 }

func (t *slab) bucket(it *item) uint64 {
	return t.first + hash.Reduce64(it.hash, t.buckets)*t.slabWords()
}

// lock waits until no other thread has locked the bucket, and locks it.
func (t *slab) lock(bucket uint64) {
	for !t.mem.CompareAndSwap(bucket+lockWord, 0, 1) {
		runtime.Gosched()
	}
}

func (t *slab) unlock(bucket uint64) { t.mem.Store(bucket+lockWord, 0) }

// place is a slot: the word of the value's address, and the first word of the key.
type place struct{ value, key uint64 }

func (t *slab) place(slab, slot uint64) place {
	return place{slab + slotsWord + slot, slab + keysWord + slot*t.keyWords()}
}

// search is the result of searching a chain.
type search struct {
	at    place
	ok    bool  // the slot in at holds the key
	free  place // first free slot; none if its value word is 0
	chain uint64
}

// search searches a bucket for a key and for a free slot.
func (t *slab) search(bucket uint64, it *item) (s search) {
	for slab := bucket; slab != 0; slab = t.mem.Load(slab + linkWord) {
		s.chain = slab
		for slot := range uint64(slabSlots) {
			at := t.place(slab, slot)
			switch {
			case t.mem.Load(at.value) == 0:
				if s.free.value == 0 {
					s.free = at
				}
			case t.mem.Equal(at.key, it.key):
				s.at, s.ok = at, true
				return s
			}
		}
	}
	return s
}

// get looks up a key. It locks the bucket unless only reads run.
func (t *slab) get(th *thread, it *item, value []byte) bool {
	bucket := t.bucket(it)
	if !th.alone {
		t.lock(bucket)
		defer t.unlock(bucket)
	}
	s := t.search(bucket, it)
	if s.ok {
		t.mem.Read(t.mem.Load(s.at.value), value)
	}
	return s.ok
}

func (t *slab) put(th *thread, it *item, value []byte) (inserted bool, err error) {
	bucket := t.bucket(it)
	t.lock(bucket)
	defer t.unlock(bucket)
	s := t.search(bucket, it)
	if s.ok {
		t.overwrite(th, s.at, value)
		return false, nil
	}
	err = t.insert(th, &s, it, value)
	return err == nil, err
}

func (t *slab) overwrite(th *thread, at place, value []byte) {
	log, to := &t.logs[th.number], t.mem.Load(at.value)
	log.save(to, pm.WordsOf(t.valueSize))
	log.validate()
	t.mem.Write(to, value)
	log.commit()
}

// insert writes a pair to a free slot, or to a new slab at the end of the chain. The memory of the
// value and of the new slab was free, so these need no log.
func (t *slab) insert(th *thread, s *search, it *item, value []byte) error {
	to, err := th.records.alloc(&t.values)
	if err != nil {
		return err
	}
	log, at, fresh := &t.logs[th.number], s.free, uint64(0)
	if at.value == 0 {
		if fresh, err = th.slabs.alloc(&t.slabs); err != nil {
			th.records.free = append(th.records.free, to)
			return err
		}
		t.mem.Clear(fresh, fresh+t.slabWords())
		at = t.place(fresh, 0)
		log.save(s.chain+linkWord, 1)
	} else {
		log.save(at.value, 1)
		log.save(at.key, t.keyWords())
	}
	log.validate()
	t.mem.Write(to, value)
	t.mem.Write(at.key, it.key)
	t.mem.Store(at.value, to)
	if fresh != 0 {
		t.mem.Store(s.chain+linkWord, fresh)
	}
	log.commit()
	return nil
}

func (t *slab) slots() uint64 {
	t.slabs.mu.Lock()
	defer t.slabs.mu.Unlock()
	return slabSlots * (t.buckets + t.slabs.next - uint64(len(t.slabs.free)))
}

func (t *slab) remove(th *thread, it *item) bool {
	bucket := t.bucket(it)
	t.lock(bucket)
	defer t.unlock(bucket)
	s := t.search(bucket, it)
	if !s.ok {
		return false
	}
	log, value := &t.logs[th.number], t.mem.Load(s.at.value)
	log.save(s.at.value, 1)
	log.validate()
	t.mem.Store(s.at.value, 0)
	log.commit()
	th.records.free = append(th.records.free, value) // durably unused, and readers hold the lock
	return true
}

func (t *slab) recycle(*thread) {}

func (t *slab) rollback() {
	for i := range t.logs {
		t.logs[i].rollback()
	}
}

// recover undoes operations that a crash interrupted, and determines the free units.
func (t *slab) recover() {
	t.rollback()
	t.mem.Fence()
	for i := range t.logs {
		t.logs[i].discard()
	}
	var slabs, values []uint64
	for b := range t.buckets {
		bucket := t.first + b*t.slabWords()
		if t.mem.Load(bucket+lockWord) != 0 {
			t.unlock(bucket)
		}
		for slab := bucket; slab != 0; slab = t.mem.Load(slab + linkWord) {
			if slab != bucket {
				slabs = append(slabs, slab)
			}
			for slot := range uint64(slabSlots) {
				if value := t.mem.Load(t.place(slab, slot).value); value != 0 {
					values = append(values, value)
				}
			}
		}
	}
	t.mem.Fence()
	t.slabs.rebuild(slabs)
	t.values.rebuild(values)
}
