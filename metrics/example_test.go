package metrics_test

import (
	"context"
	"expvar"
	"fmt"
	"log"

	"github.com/weftgo/weft/device/cpu"
	"github.com/weftgo/weft/linear"
	"github.com/weftgo/weft/metrics"
)

func ExamplePublish() {
	metrics.Publish("weft") // at /debug/vars, if the program has a server

	dev, err := cpu.Open(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	seen, err := linear.NewSet[uint64](dev, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer seen.Close()
	keys := make([]uint64, 1000)
	for i := range keys {
		keys[i] = uint64(i)
	}
	if _, err := seen.Add(context.Background(), keys, nil); err != nil {
		log.Fatal(err)
	}
	for _, s := range metrics.Structures() {
		if s.Name == "linear" {
			fmt.Println(s.Open, s.Pairs, s.Rehashes > 0, s.RehashTime > 0, s.Bytes > 8*s.Pairs)
		}
	}
	fmt.Println(len(expvar.Get("weft").String()) > 0)
	// Output:
	// 1 1000 true true true
	// true
}
