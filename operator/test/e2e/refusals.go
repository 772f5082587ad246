package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/sluice-dev/sluice/operator/api/v1beta1"
	"github.com/sluice-dev/sluice/operator/test/stepwise"
)

// unsigned is merged past every check, as whoever may merge can.
func unsigned(ctx context.Context, w *world) error {
	r, err := w.build("1.2.0")
	if err != nil {
		return err
	}
	why := "image has no signature that authority release-key accepts"
	if err := w.refused(ctx, "web 1.2.0 unsigned into prod", r, why); err != nil {
		return err
	}
	return stepwise.OK("admission said no, prod ran 1.1.0 all the while, and a revert is synced")
}

// forged has evidence beside it that is genuine, and about another image.
func forged(ctx context.Context, w *world) error {
	r, err := w.buildSigned("1.3.0")
	if err != nil {
		return err
	}
	if err := w.forge(ctx, w.environment("e2e"), w.second, r); err != nil {
		return err
	}
	if err := w.refused(ctx, "web 1.3.0 with evidence of 1.1.0 into prod", r, "is about another digest"); err != nil {
		return err
	}
	return stepwise.OK("the evidence of 1.1.0 did nothing for 1.3.0")
}

// refused merges an image into prod that its Gate denies, sees that it goes nowhere while
// what ran runs on, and reverts.
func (w *world) refused(ctx context.Context, title string, r release, why string) error {
	prod := w.environment("prod")
	before := &appsv1.Deployment{}
	if err := prod.get(ctx, "apps/v1", "Deployment", before); err != nil {
		return err
	}
	revision, err := w.merge(ctx, change{title: title, edit: func(context.Context) error { return w.setImage("prod", r) }, review: w.denied("prod", why)})
	if err != nil {
		return err
	}
	err = eventually(ctx, "Argo CD is told that prod's Gate denies it", func(ctx context.Context) error {
		a, err := w.application(ctx, prod)
		if err != nil {
			return err
		}
		return a.refused(revision, fleetName+"-prod", why)
	})
	if err != nil {
		return err
	}
	if err := w.notifies(ctx, prod, r); err != nil {
		return err
	}
	if err := prod.untouched(ctx, before); err != nil {
		return err
	}
	revision, err = w.merge(ctx, change{title: "revert " + title, edit: func(context.Context) error { return w.setImage("prod", w.second) }, review: w.passes("prod")})
	if err != nil {
		return err
	}
	if err := w.delivered(ctx, prod, revision, w.second); err != nil {
		return err
	}
	w.mark(revision, prod)
	return prod.untouched(ctx, before)
}

// untouched says what happened to a Deployment that nothing should have happened to.
func (e *environment) untouched(ctx context.Context, before *appsv1.Deployment) error {
	now, workload := &appsv1.Deployment{}, &v1beta1.Workload{}
	if err := errors.Join(e.get(ctx, "apps/v1", "Deployment", now), e.get(ctx, v1beta1.GroupVersion.String(), v1beta1.WorkloadKind, workload)); err != nil {
		return err
	}
	switch {
	case now.UID != before.UID || now.Generation != before.Generation:
		return fmt.Errorf("the Deployment of %s was written: generation %d became %d", e.name, before.Generation, now.Generation)
	case now.Status.AvailableReplicas != before.Status.AvailableReplicas:
		return fmt.Errorf("%s has %d pods, and had %d", e.name, now.Status.AvailableReplicas, before.Status.AvailableReplicas)
	case workload.Status.Phase != v1beta1.PhaseReady:
		return fmt.Errorf("the Workload of %s is %s", e.name, workload.Status.Phase)
	}
	return nil
}

// notifies holds our trigger against the Application as it is now, and the text against
// what it should say.
func (w *world) notifies(ctx context.Context, e *environment, r release) error {
	run, err := stepwise.Must(w.argocd(ctx, "admin", "notifications", "trigger", "run", "on-sluice-refused", e.application(), "--namespace="+argoNamespace))
	if err != nil {
		return err
	}
	if !strings.Contains(run, "true") {
		return fmt.Errorf("the trigger on-sluice-refused does not fire: %s", run)
	}
	text, err := stepwise.Must(w.argocd(ctx, "admin", "notifications", "template", "notify", "sluice-refused", e.application(), "--namespace="+argoNamespace, "--recipient=console:stdout"))
	if err != nil {
		return err
	}
	for _, want := range []string{"a Gate refused", "Workload " + fleetName + "/web", "denied by gate " + fleetName + "-" + e.name, r.digest} {
		if !strings.Contains(text, want) {
			return fmt.Errorf("the notification does not say %q: %s", want, text)
		}
	}
	fmt.Println("   the trigger on-sluice-refused fires, and its text says why")
	return nil
}
