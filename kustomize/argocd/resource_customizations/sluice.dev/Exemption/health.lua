-- An Exemption counts until it expires. Whether it has is not said: Argo CD asks when an
-- object changes, and not when time passes. It is never anything but healthy either, since
-- a sync waits in its wave for what is not, and nothing is wrong with one that is over.
return {status = "Healthy", message = "until " .. obj.spec.expires .. ": " .. obj.spec.reason}
