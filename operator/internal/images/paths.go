package images

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var imagePath = regexp.MustCompile(`^[A-Za-z0-9_-]+(\[\*\])?(\.[A-Za-z0-9_-]+(\[\*\])?)*$`)

// ValidatePath says why a path to images cannot be used. An object is not judged again where
// only its metadata or status changes, and its status is never looked at: an image there
// would pass unseen.
func ValidatePath(path string) error {
	first, _, _ := strings.Cut(path, ".")
	if name, _ := strings.CutSuffix(first, "[*]"); name == "metadata" || name == "status" {
		return fmt.Errorf("%q is within %s, which is not judged when it changes: name a field beside metadata and status", path, name)
	}
	if !imagePath.MatchString(path) {
		return fmt.Errorf("%q is not a path: write fields with dots between them, and [*] behind a list, such as spec.runners[*].image", path)
	}
	return nil
}

// FindAt returns the images at a path such as spec.runners[*].image, where [*] stands for
// every entry of a list. A field that is not there names no image; one of another shape
// than the path says is an error.
func FindAt(obj map[string]any, path string) ([]Found, error) {
	if err := ValidatePath(path); err != nil {
		return nil, err
	}
	return findAt(obj, "", strings.Split(path, "."))
}

func findAt(value any, at string, fields []string) ([]Found, error) {
	if value == nil {
		return nil, nil
	}
	if len(fields) == 0 {
		image, ok := value.(string)
		if !ok {
			return nil, shapeError(at, "a string", value)
		}
		return []Found{{Image: image, Path: at}}, nil
	}
	holder, ok := value.(map[string]any)
	if !ok {
		return nil, shapeError(at, "an object", value)
	}
	name, each := strings.CutSuffix(fields[0], "[*]")
	at = join(at, name)
	if !each || holder[name] == nil {
		return findAt(holder[name], at, fields[1:])
	}
	list, ok := holder[name].([]any)
	if !ok {
		return nil, shapeError(at, "a list", holder[name])
	}
	var all []Found
	for i, entry := range list {
		found, err := findAt(entry, at+"["+strconv.Itoa(i)+"]", fields[1:])
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}
