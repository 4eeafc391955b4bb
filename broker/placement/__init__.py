"""Where a run could start, at what price and how soon: pure functions of a view.

The rule: no clock, no chance, no I/O, and no word of the log; a plan's choices become commands in
``policy.placing``. Read ``plan.plan`` first; a tick goes through these stages:

    changes -> view -> groups' heads -> feasible -> forecast -> rank -> share, hedge -> choices
                (marks what a          (reasons)   (quota,     (money)  (caps, turns,
                 change could help)                 nodes)               legs)

A *group* is the runs of one demand, in order of rank; only its head is planned. A *place* is a
flavor in a queue with a hardware option; judged for a demand it is an offer or a refusal.
"""
