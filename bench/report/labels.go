package report

import "math"

// A scatter plot has a number at each point. Where points lie close together the
// numbers stand beside them, with a line to the point, such that none covers
// another or another's point.

const (
	labelRadius = 9.0
	pointRadius = 2.5
	gap         = 1.5
)

type spot struct{ x, y float64 }

func (s spot) from(t spot) float64 { return math.Hypot(s.x-t.x, s.y-t.y) }

// fromLine returns the distance to the line between two others.
func (s spot) fromLine(a, b spot) float64 {
	dx, dy := b.x-a.x, b.y-a.y
	along := 0.0
	if l := dx*dx + dy*dy; l > 0 {
		along = min(1, max(0, ((s.x-a.x)*dx+(s.y-a.y)*dy)/l))
	}
	return s.from(spot{a.x + along*dx, a.y + along*dy})
}

// labels returns where the numbers of points stand: at the point itself if that
// hides nothing, else at the nearest place that is free and within the bounds.
func labels(points []spot, lo, hi spot) []spot {
	out := make([]spot, len(points))
	placed := make([]bool, len(points))
	// First those that are alone, which need no line.
	for i, p := range points {
		alone := true
		for j, q := range points {
			alone = alone && (i == j || p.from(q) >= 2*labelRadius+gap)
		}
		if alone {
			out[i], placed[i] = p, true
		}
	}
	for i, p := range points {
		if !placed[i] {
			out[i], placed[i] = beside(i, p, points, out, placed, lo, hi), true
		}
	}
	return out
}

// beside returns the nearest free place for the number of point i. Where there is
// none to which the line crosses nothing, lines may cross.
func beside(i int, p spot, points, out []spot, placed []bool, lo, hi spot) spot {
	hides := func(at spot) bool {
		if at.x < lo.x+labelRadius || at.x > hi.x-labelRadius || at.y < lo.y+labelRadius || at.y > hi.y-labelRadius {
			return true
		}
		for j, q := range points {
			if at.from(q) < labelRadius+pointRadius+gap || placed[j] && at.from(out[j]) < 2*labelRadius+gap {
				return true
			}
		}
		return false
	}
	crosses := func(at spot) bool {
		for j, q := range points {
			if placed[j] && (out[j].fromLine(p, at) < labelRadius+gap || at.fromLine(q, out[j]) < labelRadius) ||
				j != i && q != p && q.fromLine(p, at) < pointRadius+gap/2 {
				return true
			}
		}
		return false
	}
	for _, strict := range []bool{true, false} {
		for ring := labelRadius + pointRadius + gap + 1; ring < 200; ring += 4 {
			const steps = 24
			for step := range steps {
				angle := 2 * math.Pi * float64(step) / steps
				at := spot{p.x + ring*math.Cos(angle), p.y - ring*math.Sin(angle)}
				if !hides(at) && (!strict || !crosses(at)) {
					return at
				}
			}
		}
	}
	return p
}
