// Package observe keeps account of the structures of the process: which are open, how large
// they are, how often and how long they have been rehashed, and where those were made that the
// garbage collector has found without Close. Operations on a structure cost nothing by it; to
// make and close one takes 2 us more (BenchmarkTrack), of what mapping its memory takes anyway.
package observe

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"weak"
)

// Structure is the account of all structures of one package.
type Structure struct {
	Name        string // of the package
	Open        int    // structures that have been made, and not closed or collected
	Pairs       int    // that these have; of graphs, edges as often as they are in rows
	Bytes       int    // of memory of those that are hash tables
	Rehashes    int    // since the process began: growth, shrinking, another seed
	RehashTime  time.Duration
	RehashBytes int // of the memory that rehashes have filled
	Collected   int // structures that have been collected without Close
}

// accounts are those of all structures.
var accounts struct {
	mu   sync.Mutex
	open map[*Tracked]struct{}
	all  map[string]*Structure
}

// of is the account of a package. The caller has the mutex.
func of(name string) *Structure {
	s := accounts.all[name]
	if s == nil {
		if accounts.all == nil {
			accounts.all, accounts.open = make(map[string]*Structure), make(map[*Tracked]struct{})
		}
		s = &Structure{Name: name}
		accounts.all[name] = s
	}
	return s
}

// Tracked is a structure in the accounts.
type Tracked struct {
	name    string
	logger  *slog.Logger
	size    func() (pairs, bytes int)
	made    []uintptr
	cleanup runtime.Cleanup
}

// mostFrames is how much is known of where a structure was made.
const mostFrames = 24

// Track takes a structure into the accounts, to which it must not be reachable from
// anything that lives on by itself. size is called at any time until it is closed.
func Track[T any](t *T, name string, logger *slog.Logger, size func(*T) (pairs, bytes int)) *Tracked {
	at := weak.Make(t)
	x := &Tracked{name: name, logger: logger, made: make([]uintptr, mostFrames), size: func() (int, int) {
		if t := at.Value(); t != nil {
			return size(t)
		}
		return 0, 0
	}}
	x.made = x.made[:runtime.Callers(2, x.made)]
	x.cleanup = runtime.AddCleanup(t, (*Tracked).collected, x)
	accounts.mu.Lock()
	defer accounts.mu.Unlock()
	of(name).Open++
	accounts.open[x] = struct{}{}
	return x
}

// Closed takes a structure out of the accounts.
func (x *Tracked) Closed() {
	x.cleanup.Stop()
	x.leave(false)
}

func (x *Tracked) leave(collected bool) {
	accounts.mu.Lock()
	defer accounts.mu.Unlock()
	s := of(x.name)
	s.Open--
	delete(accounts.open, x)
	if collected {
		s.Collected++
	}
}

// collected tells of a structure that nobody can close any more: its logger, or that of the
// process if it has none.
func (x *Tracked) collected() {
	x.leave(true)
	logger := x.logger
	if logger == nil || !logger.Enabled(context.Background(), slog.LevelError) {
		logger = slog.Default()
	}
	logger.Warn(x.name+": collected without Close, its memory is lost", "made", x.where())
}

// within is what the packages are called that users do not make structures by.
const within = "github.com/weftgo/weft/internal/"

// where says where a structure was made: "main.load (main.go:12), main.main (main.go:40)".
func (x *Tracked) where() string {
	var calls []string
	frames := runtime.CallersFrames(x.made)
	for {
		f, more := frames.Next()
		if f.Function != "" && !strings.HasPrefix(f.Function, within) && !strings.HasPrefix(f.Function, "runtime.") {
			calls = append(calls, fmt.Sprintf("%s (%s:%d)", path.Base(f.Function), path.Base(f.File), f.Line))
		}
		if !more {
			return strings.Join(calls, ", ")
		}
	}
}

// Rehashed counts a rehash that began at a time and filled a number of bytes. It logs the rehash at
// debug level with the structure's logger.
func Rehashed(name string, logger *slog.Logger, began time.Time, bytes int, attributes ...any) {
	took := time.Since(began)
	accounts.mu.Lock()
	s := of(name)
	s.Rehashes++
	s.RehashTime += took
	s.RehashBytes += bytes
	accounts.mu.Unlock()
	logger.Debug(name+": rehash", append(attributes, "bytes", bytes, "took", took)...)
}

// Read reads all accounts, by name.
func Read() []Structure {
	accounts.mu.Lock()
	var open []*Tracked
	for x := range accounts.open {
		open = append(open, x)
	}
	read := make(map[string]*Structure, len(accounts.all))
	for name, s := range accounts.all {
		read[name] = new(*s)
	}
	accounts.mu.Unlock()
	for _, x := range open { // without the mutex: the last use of memory may end here
		pairs, bytes := x.size()
		read[x.name].Pairs += pairs
		read[x.name].Bytes += bytes
	}
	all := make([]Structure, 0, len(read))
	for _, s := range read {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Structure) int { return strings.Compare(a.Name, b.Name) })
	return all
}
