"""Gavel (Narayanan et al., OSDI 2020): rules that give jobs parts of the time on each GPU type.

Each rule is a function, or a callable where it has to remember, from `problem.ShareProblem` to
shares X; rounds turn the shares into who runs (`simulator.presets.gavel`). `live.Gavel`
is the policy of virtual clusters.
"""
