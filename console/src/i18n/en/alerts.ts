export const alerts = {
  alerts: {
    title: "Alerts",
    status: "Status",
    open: "Open",
    states: { ACTIVE: "Active", ACKNOWLEDGED: "Acknowledged", RESOLVED: "Resolved" },
    severity: "Severity",
    what: "What happened",
    raised: "Raised",
    count: (text: string, count: number) => (count === 1 ? "1 alert" : `${text} alerts`),
    none: "No alert matches these filters.",
    anyTime: "Raised at any time",
    between: (from: string | undefined, to: string | undefined) =>
      to === undefined
        ? `Raised from ${from}`
        : from === undefined
          ? `Raised until ${to}`
          : `Raised from ${from} until ${to}`,
    clearTimes: "Any time",
    chosen: (count: string) => `${count} chosen`,
    choose: (message: string) => `Choose: ${message}`,
    chooseAll: "Choose all alerts of this page",
    chooseMatching: (count: string) => `Choose all ${count} alerts that match`,
    acknowledge: "Acknowledge",
    resolve: "Resolve",
    alert: "Alert",
    measured: "Measured",
    around: "An hour before and after",
    toHistory: "Open in the history",
  },
  rules: {
    title: "Alert rules",
    rule: "Rule",
    add: "New rule",
    none: "There are no rules. A rule raises an alert when a value meets its condition, and notifies operators and administrators.",
    plant: "Plant",
    allPlants: "All plants, also future ones",
    watchAll: "Watch all plants instead",
    watchOne: "Watch one plant: search name or serial number",
    enabled: "Enabled",
    isEnabled: (name: string) => `${name} is enabled`,
    last: "Last alert",
    metric: "Metric",
    condition: "Condition",
    comparisons: { LT: "below", GT: "above", EQ: "equal to" },
    conditions: {
      LT: (metric: string, value: string) => `${metric} below ${value}`,
      GT: (metric: string, value: string) => `${metric} above ${value}`,
      EQ: (metric: string, value: string) => `${metric} equal to ${value}`,
    },
    threshold: "Threshold",
    unit: "Unit",
    unitOfValues: "of the newest value",
    forSeconds: "Must hold for, seconds",
    cooldown: "Cooldown, minutes",
    clear: "Clear threshold",
    autoResolve: "Resolve the alert when the metric clears",
    help: "A key such as soc watches this metric of the plant and of each of its devices; BAT1.soc that of one device. After an alert, the rule raises no other one during the cooldown, for any plant. With a clear threshold, the same metric raises no other one until it has reached that value.",
    test: "Try on past values",
    tested: "What the rule would have raised",
    wouldRaise: (text: string, count: number) =>
      count === 0
        ? "The rule would have raised no alert."
        : count === 1
          ? "The rule would have raised 1 alert."
          : `The rule would have raised ${text} alerts.`,
    ofValues: (matches: string, points: string) => `${matches} of ${points} values met the condition.`,
    firstListed: (count: string) => `The first ${count} are shown.`,
    shownPlant: "Plant of the chart",
    mostAlerts: (count: number) => `The ${count} plants with the most alerts can be chosen.`,
    choosePlant: "Choose one plant to see its values beside the threshold.",
    chart: (metrics: string[]) => `Chart of ${metrics.join(", ")} with the threshold and the alerts`,
    cleared: "Cleared",
    onlyOperators: "Operators and administrators can save rules.",
    delete: "Delete",
    deleteTitle: (name: string) => `Delete ${name}?`,
    deleteConsequence: "The rule is deleted. The alerts that it raised stay.",
  },
};
