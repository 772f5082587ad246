package main

// provenance is the predicate of SLSA provenance v1. On GitHub it names the workflow that
// builds, from the variables that every job has; elsewhere the builder is a laptop, which
// nobody has to believe. When it began is left out: the only time at hand is the commit's.
// cosign makes the statement of it, with the image as its subject.
func provenance(getenv func(string) string) map[string]any {
	builder, invocation, source := "https://sluice.dev/builders/local", "", "git+https://github.com/sluice-dev/sluice"
	if server, repository := getenv("GITHUB_SERVER_URL"), getenv("GITHUB_REPOSITORY"); server != "" && repository != "" {
		source = "git+" + server + "/" + repository
		builder = server + "/" + getenv("GITHUB_WORKFLOW_REF")
		invocation = server + "/" + repository + "/actions/runs/" + getenv("GITHUB_RUN_ID") + "/attempts/" + getenv("GITHUB_RUN_ATTEMPT")
	}
	commit, ref := getenv("SOURCE_COMMIT"), getenv("GITHUB_REF")
	if ref != "" {
		source += "@" + ref
	}
	return map[string]any{
		"buildDefinition": map[string]any{
			"buildType":          "https://sluice.dev/builds/make-image/v1",
			"externalParameters": map[string]any{"source": source, "target": "make image-oci"},
			"resolvedDependencies": []any{map[string]any{
				"uri": source, "digest": map[string]any{"gitCommit": commit},
			}},
		},
		"runDetails": map[string]any{
			"builder":  map[string]any{"id": builder},
			"metadata": map[string]any{"invocationId": invocation},
		},
	}
}
