package durable

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// memoryFS is a folder in memory that records what it is asked to do, so that [disk] can say what a
// power failure at any moment leaves of it.
type memoryFS struct {
	mu     sync.Mutex
	names  map[string]*memoryFile
	events []event
	nFiles int
	setup  int // events that made the folder

	full     bool // no space is left for Allocate
	badWrite bool // writes fail
	failCall int  // the number of calls that change something until one fails; 0 is never

	hold chan struct{} // if not nil, checkpoints begin to write when it is closed

	failSync int // the number of syncs until one fails; 0 is never

	backups []backupFS // backups of this folder

	omit  string          // the place in the code where syncs do nothing
	sites map[string]bool // places where syncs were made; nil if no test asks
}

// omitted records the place in the code that syncs, and reports whether it is to have no effect.
func (m *memoryFS) omitted(what string) bool {
	if m.sites == nil {
		return false
	}
	callers := make([]uintptr, 20)
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers)])
	var site []string
	for len(site) < 3 {
		f, more := frames.Next()
		if _, name, ok := strings.Cut(f.Function, "weft/durable."); ok {
			site = append(site, name)
		}
		if !more {
			break
		}
	}
	name := what + " in " + strings.Join(site, " of ")
	m.sites[name] = true
	return m.omit == name
}

// trace makes the folder record where syncs are made, and omit those of one place.
func (m *memoryFS) trace(omit string, wanted bool) {
	if wanted {
		m.omit, m.sites = omit, map[string]bool{}
	}
}

// event is a call of a file system, or a mark of the test.
type event struct {
	kind     eventKind
	name, to string
	file     int
	at       int64
	data     []byte
	mark     int
}

type eventKind uint8

const (
	create eventKind = iota
	rename
	remove
	syncDir
	write
	resize
	syncFile
	failedSync // the content stays unsynced for ever, as on ext4
	begun      // the test begins change number mark
	returned   // change number mark has returned
)

type memoryFile struct {
	fs   *memoryFS
	id   int
	data []byte
}

// newMemoryFS returns a folder with files.
func newMemoryFS(files map[string][]byte) *memoryFS {
	m := &memoryFS{names: map[string]*memoryFile{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		m.nFiles++
		m.names[name] = &memoryFile{m, m.nFiles, slices.Clone(files[name])}
		m.record(event{kind: create, name: name, file: m.nFiles})
		m.record(event{kind: write, file: m.nFiles, data: slices.Clone(files[name])})
		m.record(event{kind: syncFile, file: m.nFiles})
	}
	m.record(event{kind: syncDir})
	m.setup = len(m.events)
	return m
}

// backupFS is a folder with a backup of a store after the given number of changes.
type backupFS struct {
	*memoryFS
	state int
}

// backup makes a backup of the store in the folder.
func (m *memoryFS) backup(state int, links bool) error {
	to := newMemoryFS(nil)
	to.trace(m.omit, m.sites != nil)
	c := &copier{ctx: context.Background(), from: m, to: to}
	if links {
		c.link = func(name string) error { return to.link(name, m) }
	}
	if err := c.run(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.backups = append(m.backups, backupFS{to, state})
	return nil
}

// link makes a file with the content of one of another folder, which is not synced.
func (m *memoryFS) link(name string, from *memoryFS) error {
	data, err := readFile(from, name)
	if err != nil {
		return err
	}
	f, err := m.Create(name)
	if err == nil {
		_, err = f.WriteAt(data, 0)
	}
	return err
}

func (m *memoryFS) record(e event) { m.events = append(m.events, e) }

// setHold makes checkpoints wait until hold is closed.
func (m *memoryFS) setHold(hold chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hold = hold
}

func (m *memoryFS) mark(kind eventKind, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record(event{kind: kind, mark: n})
}

// files returns the content, as the running system sees it.
func (m *memoryFS) files() map[string][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string][]byte{}
	for name, f := range m.names {
		all[name] = slices.Clone(f.data)
	}
	return all
}

func notExist(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

func (m *memoryFS) Create(name string) (file, error) {
	m.mu.Lock()
	hold := m.hold
	m.mu.Unlock()
	if hold != nil && strings.HasPrefix(name, "checkpoint") {
		<-hold
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails() {
		return nil, errDisk
	}
	if m.names[name] != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	m.nFiles++
	f := &memoryFile{fs: m, id: m.nFiles}
	m.names[name] = f
	m.record(event{kind: create, name: name, file: f.id})
	return f, nil
}

func (m *memoryFS) Open(name string) (file, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.names[name]; f != nil {
		return f, nil
	}
	return nil, notExist("open", name)
}

func (m *memoryFS) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails() {
		return errDisk
	}
	f := m.names[from]
	if f == nil {
		return notExist("rename", from)
	}
	delete(m.names, from)
	m.names[to] = f
	m.record(event{kind: rename, name: from, to: to, file: f.id})
	return nil
}

func (m *memoryFS) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails() {
		return errDisk
	}
	if m.names[name] == nil {
		return notExist("remove", name)
	}
	delete(m.names, name)
	m.record(event{kind: remove, name: name})
	return nil
}

func (m *memoryFS) List() ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.names)), nil
}

func (m *memoryFS) SyncDir() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails() {
		return errDisk
	}
	if !m.omitted("folder") {
		m.record(event{kind: syncDir})
	}
	return nil
}

func (f *memoryFile) ReadAt(b []byte, at int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if at >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.data[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memoryFile) WriteAt(b []byte, at int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.badWrite || f.fs.fails() {
		return 0, errDisk
	}
	f.data = writeTo(f.data, b, at)
	f.fs.record(event{kind: write, file: f.id, at: at, data: slices.Clone(b)})
	return len(b), nil
}

func writeTo(data, b []byte, at int64) []byte {
	if end := int(at) + len(b); end > len(data) {
		data = append(data, make([]byte, end-len(data))...)
	}
	copy(data[at:], b)
	return data
}

func (f *memoryFile) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.data)), nil
}

func (f *memoryFile) Allocate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.fails() {
		return errDisk
	}
	if size > int64(len(f.data)) {
		if f.fs.full {
			return errDisk
		}
		f.resize(size)
	}
	return nil
}

func (f *memoryFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.fails() {
		return errDisk
	}
	f.resize(size)
	return nil
}

func (f *memoryFile) resize(size int64) {
	f.data = resizeTo(f.data, size)
	f.fs.record(event{kind: resize, file: f.id, at: size})
}

func resizeTo(data []byte, size int64) []byte {
	if n := int(size); n <= len(data) {
		return data[:n:n]
	}
	return append(data, make([]byte, int(size)-len(data))...)
}

var errDisk = errors.New("the disk fails")

// fails reports whether the present call is to fail. The caller holds the mutex.
func (m *memoryFS) fails() bool {
	if m.failCall == 0 {
		return false
	}
	m.failCall--
	return m.failCall == 0
}

func (f *memoryFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.fails() {
		f.fs.record(event{kind: failedSync, file: f.id})
		return errDisk
	}
	if f.fs.failSync > 0 {
		if f.fs.failSync--; f.fs.failSync == 0 {
			f.fs.record(event{kind: failedSync, file: f.id})
			return errDisk
		}
	}
	if !f.fs.omitted("file") {
		f.fs.record(event{kind: syncFile, file: f.id})
	}
	return nil
}

func (f *memoryFile) Close() error { return nil }

// disk is what is on the disk after some events, and what may be.
type disk struct {
	files map[int]*diskFile
	names map[string]int // durable
	dir   []event        // creations, renames and removals that may be durable
	// numbers of changes
	begun, returned int
}

type diskFile struct {
	data    []byte  // durable
	pending []event // writes and resizes that may be durable
	// those that a failed sync has dropped: durable or not, whatever is synced later
	never []event
}

func newDisk() *disk { return &disk{files: map[int]*diskFile{}, names: map[string]int{}} }

// apply applies the next event.
func (d *disk) apply(e event) {
	switch e.kind {
	case create:
		d.files[e.file] = &diskFile{}
		d.dir = append(d.dir, e)
	case rename, remove:
		d.dir = append(d.dir, e)
	case syncDir:
		for _, e := range d.dir {
			changeNames(d.names, e)
		}
		d.dir = nil
	case write, resize:
		f := d.files[e.file]
		f.pending = append(f.pending, e)
	case failedSync:
		f := d.files[e.file]
		f.never, f.pending = append(f.never, f.pending...), nil
	case syncFile:
		f := d.files[e.file]
		for _, e := range f.pending {
			f.data = e.change(f.data)
		}
		f.pending = nil
	case begun:
		d.begun = e.mark
	case returned:
		d.returned = e.mark
	}
}

func changeNames(names map[string]int, e event) {
	switch e.kind {
	case create:
		names[e.name] = e.file
	case rename:
		delete(names, e.name)
		names[e.to] = e.file
	case remove:
		delete(names, e.name)
	}
}

func (e event) change(data []byte) []byte {
	if e.kind == resize {
		return resizeTo(data, e.at)
	}
	return writeTo(data, e.data, e.at)
}

// written returns what the end of the process leaves: everything, synced or not.
func (d *disk) written() map[string][]byte {
	names := maps.Clone(d.names)
	for _, e := range d.dir {
		changeNames(names, e)
	}
	files := map[string][]byte{}
	for name, n := range names {
		f := d.files[n]
		data := slices.Clone(f.data)
		for _, e := range slices.Concat(f.never, f.pending) {
			data = e.change(data)
		}
		files[name] = data
	}
	return files
}

// image returns what a power failure leaves: of everything that is not synced, any part. Writes are
// lost or kept by sector.
func (d *disk) image(rng *rand.Rand) map[string][]byte {
	names := maps.Clone(d.names)
	keep := rng.IntN(3) // of everything: none, some, all
	kept := func() bool { return keep == 2 || keep == 1 && rng.IntN(2) == 0 }
	for _, e := range d.dir {
		if kept() {
			changeNames(names, e)
		}
	}
	files := map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		f := d.files[names[name]]
		data := slices.Clone(f.data)
		for _, e := range slices.Concat(f.never, f.pending) {
			if e.kind == resize {
				if kept() {
					data = e.change(data)
				}
				continue
			}
			torn := keep == 1 && rng.IntN(3) == 0
			if !torn && kept() {
				data = e.change(data)
			}
			for lo := 0; torn && lo < len(e.data); {
				hi := min(len(e.data), lo+sector-int(e.at+int64(lo))%sector)
				if kept() {
					data = writeTo(data, e.data[lo:hi], e.at+int64(lo))
				}
				lo = hi
			}
		}
		files[name] = data
	}
	return files
}

// sector is the unit that a disk writes as a whole. Real ones have 512 bytes or more; a small one
// tears more frames.
const sector = 64
