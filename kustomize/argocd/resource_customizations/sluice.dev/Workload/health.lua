-- Health of a Workload by the rules of kstatus. What is said here is about the object and
-- not about its pods alone: a Workload whose update is denied is Degraded, though what ran
-- before runs on.
local function condition(kind)
  for _, c in ipairs(obj.status.conditions) do
    if c.type == kind then
      return c
    end
  end
  return {}
end

-- A new Workload has a status by default, of generation -1.
if obj.status == nil or obj.status.conditions == nil or obj.status.observedGeneration == nil or obj.status.observedGeneration < 0 then
  return {status = "Progressing", message = "waiting for the operator to look at it"}
end
-- A status without the condition is one that somebody else wrote.
local ready = condition("Ready")
local message = ready.message
-- A status of an older generation says nothing of this one.
if obj.metadata.generation ~= nil and obj.status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "waiting for the operator to look at generation " .. tostring(obj.metadata.generation)}
end
if ready.observedGeneration ~= nil and ready.observedGeneration ~= obj.status.observedGeneration then
  return {status = "Progressing", message = message}
end
if obj.metadata.deletionTimestamp ~= nil then
  return {status = "Progressing", message = message}
end
if obj.status.phase == "Paused" then
  return {status = "Suspended", message = message}
end
local stalled = condition("Stalled")
if stalled.status == "True" then
  return {status = "Degraded", message = stalled.message}
end
if ready.status == "True" then
  return {status = "Healthy", message = message}
end
return {status = "Progressing", message = message}
