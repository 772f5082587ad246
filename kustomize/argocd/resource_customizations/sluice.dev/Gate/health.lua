-- A Gate does its work as soon as it is stored, so it is always healthy: what it denies is
-- told by the Workloads. Its mode is told, since one that lets everything through looks
-- like any other.
local mode = obj.spec.mode or "Enforce"
if mode == "Enforce" then
  return {status = "Healthy", message = "enforces what " .. obj.spec.environment .. " demands"}
end
return {status = "Healthy", message = "mode " .. mode .. ": blocks nothing in " .. obj.spec.environment}
