// Package observe counts the structures of the process: which are open, how large they are, and how
// often and how long they have been rehashed. It also reports where a structure was made that the
// garbage collector found without Close. Operations on a structure cost nothing more. Making and
// closing a structure costs 2 us more (BenchmarkTrack), which is little beside mapping its memory.
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

// Structure is the account of all structures of one package. Its fields equal those of
// metrics.Structure.
type Structure struct {
	Name        string // name of the package
	Open        int    // structures that have been made, and neither closed nor collected
	Pairs       int    // pairs in open structures; for graphs, the neighbors in all rows
	Bytes       int    // bytes of memory of open hash tables
	Rehashes    int    // rehashes since the process began: growth, shrinking, another seed
	RehashTime  time.Duration
	RehashBytes int // bytes of memory that rehashes have filled
	Collected   int // structures that the garbage collector found without Close
}

// accounts holds the open structures, and the accounts by package.
var accounts struct {
	mu   sync.Mutex
	open map[*Tracked]struct{}
	all  map[string]*Structure
}

// of returns the account of a package. Callers hold accounts.mu.
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

// Tracked is an open structure.
type Tracked struct {
	name    string
	logger  *slog.Logger
	size    func() (pairs, bytes int)
	made    []uintptr
	cleanup runtime.Cleanup
}

// mostFrames is the maximum number of stack frames recorded where a structure is made.
const mostFrames = 24

// Track adds a structure to the accounts. Neither size nor anything else that outlives the
// structure may refer to it, so that it can be collected. size is called at any time until the
// structure is closed. logger may be nil.
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

// Closed removes a closed structure from the accounts.
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

// collected logs a warning about a structure that was collected without Close. It uses the default
// logger if the structure has no logger, or one that discards even errors. A logger of errors alone
// drops the warning.
func (x *Tracked) collected() {
	x.leave(true)
	logger := x.logger
	if logger == nil || !logger.Enabled(context.Background(), slog.LevelError) {
		logger = slog.Default()
	}
	logger.Warn(x.name+": collected without Close, its memory is lost", "made", x.where())
}

// within begins the import paths of packages that where omits, because users do not make structures
// by them.
const within = "github.com/weftgo/weft/internal/"

// where returns the calls that made the structure: "main.load (main.go:12), main.main
// (main.go:40)".
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

// Rehashed counts a rehash that started at the time began and filled the given number of bytes. It
// logs the rehash with logger, at debug level.
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

// Read returns all accounts, sorted by name.
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
	// without the mutex, since size may free memory that no call uses any more
	for _, x := range open {
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
