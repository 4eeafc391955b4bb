"""What a cluster's API answers, as frozen values with only the fields that we use.

The rule: an answer is hostile until it is read. Nothing here raises towards a watch: what cannot be
read becomes an ``Unreadable`` with its reason. That v1beta1 and v1beta2 differ is known here and
nowhere else. Read ``kinds.decode`` first.

    reading.py   the one way into a dict of JSON: types, lengths, limits
    quantity.py  8, "8", "8k", "500m": amounts as integers
    meta.py      name, uid, labels, conditions: what all kinds have
    kinds.py     the table of kinds: where each is served, and what reads it
    the rest     one file for each resource

Times are Unix seconds by the cluster's clock. Amounts of cpu are in thousandths, all others whole.
"""
