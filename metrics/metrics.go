// Package metrics reports statistics of the structures of the process: how many are open, how many
// pairs and bytes they hold, how often they have been rehashed and how long that took. [Structures]
// returns the statistics. [Publish] makes them a variable of package expvar, which programs with an
// HTTP server show at /debug/vars:
//
//	metrics.Publish("weft")
//
// The statistics are always on. They cost little, because they change only when a structure is
// made, closed or rehashed. Each structure also logs its rehashes to Options.Logger, at debug
// level. Package runtime/pprof shows where operations spend their time; see Labels in the options
// of device/cpu.
package metrics

import (
	"expvar"
	"sync"
	"time"

	"github.com/weftgo/weft/internal/observe"
)

// Structure holds the statistics of all structures of one package, for example of all maps and sets
// of package linear.
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

// Structures returns the statistics of all packages that have made a structure, sorted by name.
func Structures() []Structure {
	accounts := observe.Read()
	all := make([]Structure, len(accounts))
	for i, a := range accounts {
		all[i] = Structure(a)
	}
	return all
}

// Publish makes an expvar variable that reads the statistics on each request. Its value is an
// object keyed by package name. Publish does nothing if a variable of this name exists.
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

// publishing serializes calls of Publish.
var publishing sync.Mutex
