package tier_test

import data.tier

test_no_tier_is_denied if count(tier.deny) == 1 with input as {"workload": {"metadata": {"name": "web", "labels": {}}}}
