package experiment

import (
	"math"
	"testing"

	"github.com/weftgo/weft/internal/bucketmodel"
)

// Requests of warps to tables of eight slots match the theory within a fiftieth: two sectors, in
// one line, per bucket.
func TestRequestsOfLookups(t *testing.T) {
	if testing.Short() {
		t.Skip("interprets kernels")
	}
	model := bucketmodel.Horton{Slots: kindSlots, Load: hortonSizesLoad, Tags: bucketmodel.Entries(slabPair)}
	first, even := bucketmodel.FirstFit{Slots: kindSlots, Load: hortonSizesLoad}, bucketmodel.Balanced{Slots: kindSlots, Load: hortonSizesLoad}
	reads := map[string][2]float64{
		hortonLazy: {model.PerHit(), model.PerMiss()}, cuckooFirst: {first.PerHit(), first.PerMiss()}, cuckooEven: {even.PerHit(), even.PerMiss()},
	}
	for _, on := range sizesKinds {
		hit, miss, err := countRequests(t.Context(), on, 1, tableKeys(countedTable), hortonSizesLoad)
		if err != nil {
			t.Fatal(err)
		}
		name := on(&runner{}).name
		for i, r := range []Requested{hit, miss} {
			buckets := reads[name][i]
			if math.Abs(r.Sectors-2*buckets) > .02*2*buckets || math.Abs(r.Lines-buckets) > .02*buckets {
				t.Errorf("%s, lookups %d: %+v, want those of %.3f buckets", name, i, r, buckets)
			}
		}
	}
	if len(reads) != len(sizesKinds) {
		t.Errorf("%d kinds of tables", len(sizesKinds))
	}
}
