// Package metrics reports statistics of the structures of the process: how many are open, how many
// pairs and bytes they have, how often they have been rehashed and how long that took. [Structures]
// returns the statistics. [Publish] makes them a variable of package expvar, which programs with an
// HTTP server show at /debug/vars:
//
//	metrics.Publish("weft")
//
// The statistics are always kept, since they change only when a structure is made, closed or
// rehashed. Each structure's Options.Logger receives the same events, at debug level. Package
// runtime/pprof shows where the time of operations goes; see Labels in the options of device/cpu.
package metrics

import (
	"expvar"
	"sync"
	"time"

	"github.com/weftgo/weft/internal/observe"
)

// Structure holds the statistics of all structures of one package, for example of all maps and sets
// of linear.
type Structure struct {
	Name        string // of the package
	Open        int    // structures made, and not closed or collected
	Pairs       int    // pairs in these; of graphs, the entries of rows
	Bytes       int    // memory of those that are hash tables
	Rehashes    int    // since the process began: growth, shrinking, another seed
	RehashTime  time.Duration
	RehashBytes int // memory that rehashes have filled
	Collected   int // structures that have been collected without Close
}

// Structures returns the statistics of all packages that have made a structure, by name.
func Structures() []Structure {
	accounts := observe.Read()
	all := make([]Structure, len(accounts))
	for i, a := range accounts {
		all[i] = Structure(a)
	}
	return all
}

// Publish makes an expvar variable of the statistics, which are read on each request. The value is
// an object keyed by package name. An existing variable of that name is not replaced.
func Publish(name string) {
	publishing.Lock()
	defer publishing.Unlock()
	if expvar.Get(name) != nil {
		return
	}
	expvar.Publish(name, expvar.Func(func() any {
		all := make(map[string]Structure)
		for _, s := range Structures() {
			all[s.Name] = s
		}
		return all
	}))
}

// publishing guards the check for an existing variable and its creation.
var publishing sync.Mutex
