import type { alerts as english } from "../en/alerts";

export const alerts: typeof english = {
  alerts: {
    title: "Alarme",
    status: "Status",
    open: "Offen",
    states: { ACTIVE: "Aktiv", ACKNOWLEDGED: "Bestätigt", RESOLVED: "Behoben" },
    severity: "Schwere",
    what: "Was geschah",
    raised: "Ausgelöst",
    count: (text, count) => (count === 1 ? "1 Alarm" : `${text} Alarme`),
    none: "Kein Alarm entspricht diesen Filtern.",
    anyTime: "Zu jeder Zeit ausgelöst",
    between: (from, to) =>
      to === undefined
        ? `Ausgelöst ab ${from}`
        : from === undefined
          ? `Ausgelöst bis ${to}`
          : `Ausgelöst von ${from} bis ${to}`,
    clearTimes: "Jede Zeit",
    chosen: (count) => `${count} ausgewählt`,
    choose: (message) => `Auswählen: ${message}`,
    chooseAll: "Alle Alarme dieser Seite auswählen",
    chooseMatching: (count) => `Alle ${count} passenden Alarme auswählen`,
    acknowledge: "Bestätigen",
    resolve: "Beheben",
    alert: "Alarm",
    measured: "Gemessen",
    around: "Eine Stunde vorher und nachher",
    toHistory: "Im Verlauf öffnen",
  },
  rules: {
    title: "Alarmregeln",
    rule: "Regel",
    add: "Neue Regel",
    none: "Es gibt keine Regeln. Eine Regel löst einen Alarm aus, wenn ein Wert ihre Bedingung erfüllt, und benachrichtigt Betreiber und Administratoren.",
    plant: "Anlage",
    allPlants: "Alle Anlagen, auch künftige",
    watchAll: "Stattdessen alle Anlagen beobachten",
    watchOne: "Eine Anlage beobachten: Name oder Seriennummer suchen",
    enabled: "Eingeschaltet",
    isEnabled: (name) => `${name} ist eingeschaltet`,
    last: "Letzter Alarm",
    metric: "Messgröße",
    condition: "Bedingung",
    comparisons: { LT: "unter", GT: "über", EQ: "gleich" },
    conditions: {
      LT: (metric, value) => `${metric} unter ${value}`,
      GT: (metric, value) => `${metric} über ${value}`,
      EQ: (metric, value) => `${metric} gleich ${value}`,
    },
    threshold: "Schwelle",
    unit: "Einheit",
    unitOfValues: "des neuesten Werts",
    forSeconds: "Muss gelten für, Sekunden",
    cooldown: "Ruhezeit, Minuten",
    clear: "Schwelle der Entwarnung",
    autoResolve: "Alarm mit der Entwarnung beheben",
    help: "Ein Schlüssel wie soc beobachtet diese Messgröße der Anlage und jedes ihrer Geräte; BAT1.soc die eines Geräts. Nach einem Alarm löst die Regel während der Ruhezeit für keine Anlage einen weiteren aus. Mit einer Schwelle der Entwarnung löst dieselbe Messgröße keinen anderen aus, bis sie diesen Wert erreicht hat.",
    test: "Mit früheren Werten prüfen",
    tested: "Was die Regel ausgelöst hätte",
    wouldRaise: (text, count) =>
      count === 0
        ? "Die Regel hätte keinen Alarm ausgelöst."
        : count === 1
          ? "Die Regel hätte 1 Alarm ausgelöst."
          : `Die Regel hätte ${text} Alarme ausgelöst.`,
    ofValues: (matches, points) => `${matches} von ${points} Werten erfüllten die Bedingung.`,
    firstListed: (count) => `Die ersten ${count} werden gezeigt.`,
    shownPlant: "Anlage des Diagramms",
    mostAlerts: (count) => `Die ${count} Anlagen mit den meisten Alarmen lassen sich wählen.`,
    choosePlant: "Wählen Sie eine Anlage, um ihre Werte neben der Schwelle zu sehen.",
    chart: (metrics) => `Diagramm von ${metrics.join(", ")} mit der Schwelle und den Alarmen`,
    cleared: "Entwarnung",
    onlyOperators: "Betreiber und Administratoren können Regeln speichern.",
    delete: "Löschen",
    deleteTitle: (name) => `${name} löschen?`,
    deleteConsequence: "Die Regel wird gelöscht. Die von ihr ausgelösten Alarme bleiben.",
  },
};
