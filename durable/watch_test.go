package durable

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// Open reports what it reads, no byte twice as often as it is there, and all at the end. Frames are
// larger than what is read at a time.
func TestProgress(t *testing.T) {
	fs, ctx, empty := newMemoryFS(nil), t.Context(), newMap(t)
	m := openIn(t, fs, empty, Options{})
	keys := make([]uint64, 16_400)
	for i := range keys {
		keys[i] = uint64(i)
	}
	for i := range 20 {
		if _, err := m.Put(ctx, keys, keys); err != nil {
			t.Fatal(err)
		}
		if i == 3 {
			if err := Checkpoint(ctx, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	var seen [][2]int64
	note := func(done, total int64) { seen = append(seen, [2]int64{done, total}) }
	m = openIn(t, fs, empty, Options{Progress: note})
	defer m.Close()
	last, atEnd := seen[len(seen)-1], 0
	if last[0] != last[1] || last[1] < 2*16*16*16_400 {
		t.Errorf("at last %d of %d bytes", last[0], last[1])
	}
	for i, s := range seen {
		if i > 0 && s[0] < seen[i-1][0] || s[1] != last[1] {
			t.Errorf("%v at %d of %d", s, i, len(seen))
		}
		if s[0] == s[1] {
			atEnd++
		}
	}
	if atEnd > 2 {
		t.Errorf("%d reads after all was read", atEnd-2)
	}
}

// A store that takes long to read says how far it has come.
func TestProgressMessages(t *testing.T) {
	var out bytes.Buffer
	w := &watchedFS{total: 1000, logger: slog.New(slog.NewTextHandler(&out, nil))}
	w.add(10)
	w.add(20)
	got := out.String()
	if strings.Count(got, "\n") != 1 || !strings.Contains(got, "bytes=10 of=1000") {
		t.Errorf("%s", &out)
	}
}

// A checkpoint is synced while it is written, so that it never has much left to write.
func TestSteadyWriter(t *testing.T) {
	fs := newMemoryFS(nil)
	f, err := fs.Create("checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	w, block := &steadyWriter{file: f}, make([]byte, 10<<20)
	for i := range 5 {
		block[0] = byte(i)
		if _, err := w.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	syncs := 0
	for _, e := range fs.events {
		if e.kind == syncFile {
			syncs++
		}
	}
	data := fs.files()["checkpoint"]
	if syncs != 2 || len(data) != 50<<20 || data[40<<20] != 4 {
		t.Errorf("%d syncs of %d bytes", syncs, len(data))
	}
	fs.failSync = 1
	if _, err := w.Write(block); err == nil {
		t.Error("a sync that failed was not reported")
	}
}
