package pool

import (
	"bytes"
	"encoding/binary"
	"math/big"
	"testing"

	"github.com/weftgo/weft/internal/pm"
)

// FuzzSuperblock reads any two blocks, with valid checksums, as the copies of a pool. An accepted
// superblock satisfies the conditions of Check, computed here without overflow. It encodes to the
// same block again.
func FuzzSuperblock(f *testing.F) {
	var b block
	b.encode(sample())
	f.Add(b[:1144], []byte(nil), int64(testSize))
	f.Add([]byte(magic), b[:1144], int64(testSize))
	for _, h := range hostile {
		_, mapped := newFormatted(f)
		rewrite(mapped, h.change, nil)
		f.Add(mapped[:1144], bytes.TrimRight(mapped[copyB:copyB+sumsAt], "\x00"), int64(testSize))
	}
	f.Fuzz(func(t *testing.T, a, b []byte, size int64) {
		var copies [2]Copy
		for i, content := range [][]byte{a, b} {
			c := &copies[i]
			copy(c.block[:], content)
			var fixed wire
			if _, err := binary.Decode(c.block[:], le, &fixed); err != nil {
				t.Fatal(err)
			}
			copy(c.block[:], magic)
			le.PutUint32(c.block[12:], blockSize)
			le.PutUint32(c.block[16:], marker)
			le.PutUint32(c.block[20:], sumsKind)
			le.PutUint64(c.block[40:], fixed.Generation&^1|uint64(1-i))
			c.block.writeChecksums()
		}
		i, err := chooseCopy(&copies, uint64(size))
		if (i < 0 || copies[i].Err != nil) != (err != nil) {
			t.Fatalf("copy %d, %v: %v", i, copies[i].Err, err)
		}
		if err != nil {
			return
		}
		s := copies[i].Superblock
		if other := copies[1-i]; other.Err == nil && other.Superblock.Generation >= s.Generation {
			t.Fatalf("generation %d was chosen, there is %d", s.Generation, other.Superblock.Generation)
		}
		checkDisjoint(t, &s, size)
		encoded := copies[i].block
		encoded.encode(&s)
		if encoded != copies[i].block {
			t.Fatal("written again, it is another block")
		}
		if size <= 2*testSize {
			checkCommit(t, &s)
		}
	})
}

// checkDisjoint fails if extents of a superblock overlap or leave the pool.
func checkDisjoint(t *testing.T, s *Superblock, size int64) {
	var ends [][2]*big.Int
	add := func(offset, length uint64) {
		if length == 0 {
			return
		}
		lo, n := new(big.Int).SetUint64(offset), new(big.Int).SetUint64(length)
		hi := new(big.Int).Add(lo, n)
		if lo.Cmp(big.NewInt(DataStart)) < 0 || hi.Cmp(big.NewInt(size)) > 0 || offset%Page+length%Page != 0 {
			t.Fatalf("%d+%d in a pool of %d", offset, length, size)
		}
		for _, other := range ends {
			if lo.Cmp(other[1]) < 0 && other[0].Cmp(hi) < 0 {
				t.Fatalf("%v and %v overlap", other, [2]*big.Int{lo, hi})
			}
		}
		ends = append(ends, [2]*big.Int{lo, hi})
	}
	for i, l := range s.Levels {
		add(l.Offset, l.Length)
		if (l.State != Free) != (l.Length > 0) || l.State > Draining || i == MaxLevels && l.State != Free {
			t.Fatalf("level %d: %+v", i, l)
		}
	}
	for _, a := range s.Areas {
		add(a.Offset, a.Length)
		if a.Used > a.Length {
			t.Fatalf("%+v", a)
		}
	}
	for i := s.Bottom; i <= s.Top; i++ {
		if i >= MaxLevels || s.Levels[i].State == Free {
			t.Fatalf("levels %d to %d: %d is free", s.Bottom, s.Top, i)
		}
	}
}

// checkCommit fails if a pool cannot commit an accepted superblock.
func checkCommit(t *testing.T, s *Superblock) {
	p, err := Format(pm.New(make([]byte, s.Size), nil), s)
	if err != nil {
		t.Fatal(err)
	}
	if p, err = OpenMemory(p.Memory()); err != nil {
		t.Fatal(err)
	}
	want := *s
	want.Clean, want.UncleanOpens, want.Generation = false, 0, 2
	want.Boot, want.Contents = boot, Contents{}
	if is := p.Superblock(); is != want {
		t.Fatalf("%+v comes back as %+v", want, is)
	}
}
