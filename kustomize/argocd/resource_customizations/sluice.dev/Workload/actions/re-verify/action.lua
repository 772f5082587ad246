-- The operator looks at a Workload again when one of its annotations changes, whichever it
-- is, and Argo CD leaves alone what is not in Git.
local os = require("os")
if obj.metadata.annotations == nil then
  obj.metadata.annotations = {}
end
obj.metadata.annotations["sluice.dev/re-verify-requested"] = os.date("!%Y-%m-%dT%H:%M:%SZ")
return obj
