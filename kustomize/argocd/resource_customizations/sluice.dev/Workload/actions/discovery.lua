local paused = obj.spec.paused == true
local actions = {}
actions["pause"] = {["disabled"] = paused}
actions["resume"] = {["disabled"] = not paused}
-- What is paused is not judged.
actions["re-verify"] = {["disabled"] = paused}
return actions
