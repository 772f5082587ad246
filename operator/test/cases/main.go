// Command cases runs known cases of image trust, of promotion, of overlays and of attacks, each with its right
// answer, and prints for each its number, what is right and what Sluice says. It exits 1 if
// they differ.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/sluice-dev/sluice/operator/internal/gate"
)

// testCase is one situation with a known right answer.
type testCase struct {
	number int
	name   string
	right  gate.Outcome
	// says has to stand in the findings, where what is said matters.
	says string
	run  func(context.Context, *bench) (gate.Verdict, error)
}

func main() {
	passed, failed := 0, 0
	for _, group := range []struct {
		name  string
		cases []testCase
	}{{"images", images}, {"promotion", promotionCases}} {
		for _, c := range group.cases {
			verdict, err := runCase(context.Background(), c)
			if err == nil {
				passed++
				fmt.Printf("%s %2d  right: %-5s  ours: %-5s  ok    %s\n", group.name, c.number, c.right, verdict.Outcome, c.name)
				continue
			}
			failed++
			fmt.Printf("%s %2d  right: %-5s  ours: %-5s  WRONG %s: %v\n", group.name, c.number, c.right, verdict.Outcome, c.name, err)
		}
	}
	for _, group := range []struct {
		name  string
		cases []commandCase
	}{{"promotion", promoteCases}, {"kustomize", kustomizeCases}} {
		for _, c := range group.cases {
			err := c.run(context.Background())
			if err == nil {
				passed++
				fmt.Printf("%s %2d  right: %s  ok    %s\n", group.name, c.number, c.right, c.name)
				continue
			}
			failed++
			fmt.Printf("%s %2d  right: %s  WRONG %s: %v\n", group.name, c.number, c.right, c.name, err)
		}
	}
	done, err := suites(context.Background())
	if err != nil {
		failed++
		fmt.Printf("the suites of the attacks did not run: %v\n", err)
	}
	for _, a := range attacks {
		if err := a.hold(context.Background(), done); err != nil {
			failed++
			fmt.Printf("attack %2d  right: %s  WRONG %s: %v\n", a.number, a.right, a.name, err)
			continue
		}
		passed++
		fmt.Printf("attack %2d  right: %s  ok    %s\n", a.number, a.right, a.name)
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

// runCase runs one case on a bench of its own, and judges it again from a recording; the
// error says how it went wrong.
func runCase(ctx context.Context, c testCase) (gate.Verdict, error) {
	b, err := newBench()
	if err != nil {
		return gate.Verdict{}, err
	}
	defer b.close()
	b.again = true
	verdict, err := c.run(ctx, b)
	if err != nil {
		return verdict, err
	}
	return verdict, hold(verdict, c.right, c.says)
}
