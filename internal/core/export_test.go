package core

// Streams is how many streams of callers a lease's generation knows of.
func (l *Lease) Streams() int { return len(l.gen.streams) }
