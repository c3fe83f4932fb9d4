package sim

type views struct{}

type cell struct{}

func newViews(l *launch) *views { return nil }
func (v *views) settle()        {}
func (v *views) load(w *warp, in *instr, lane int, seg *segment, off uint64) ([2]uint64, bool) {
	return [2]uint64{}, false
}
func (v *views) store(w *warp, in *instr, lane int, seg *segment, off uint64, x [2]uint64) {}
func (v *views) update(w *warp, in *instr, lane int, seg *segment, off uint64, x [2]uint64, writes bool) {
}
func (v *views) fence(w *warp, lane int, o order, s Scope) {}
func (v *views) joinLanes(w *warp, m uint32)               {}
func (v *views) joinWarps(ws []*warp)                      {}
