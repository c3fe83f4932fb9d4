package main

import (
	"testing"

	"github.com/weftgo/weft/device/devicetest"
)

// Compare the kernel with equivalent batches from host columns, on the device of WEFT_DEVICE:
// millions of sales, two campaigns per customer.
func BenchmarkTotal(b *testing.B) {
	const customers, rows, groups = 1 << 20, 1 << 22, 1000
	var c campaigns
	var s sales
	for i := range 2 * customers {
		c.customer, c.campaign = append(c.customer, int64(i/2)), append(c.campaign, uint32(i*2654435761>>7)%groups)
	}
	for i := range rows {
		s.customer, s.cents = append(s.customer, int64(uint32(i*2654435761)>>11)), append(s.cents, int64(i%2*100))
	}
	db, err := open(b.Context(), devicetest.Open(b), c)
	if err != nil {
		b.Fatal(err)
	}
	defer db.close()
	for name, total := range map[string]func() (uint64, error){
		"kernel":  func() (uint64, error) { return db.total(b.Context(), s, 100) },
		"batches": func() (uint64, error) { return db.totalByBatches(b.Context(), s, 100) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if n, err := total(); n != rows/2 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}
