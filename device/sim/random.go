package sim

type pct struct {
	fast
	accesses uint64
}

func newPCT(l *launch, depth int, last uint64) *pct { return &pct{} }
func newRandom(l *launch) scheduler                 { return fast{} }
