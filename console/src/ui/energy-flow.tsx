import type { components } from "../api/schema";
import type { FleetPlant } from "../fleet";
import { energy, percent, sign, power as signedPower, unsignedPower } from "../format/quantities";
import { useLocale, useTexts } from "../i18n";
import { Age } from "./age";
import { Fact } from "./fact";
import { useNow } from "./now";

type Energies = components["schemas"]["EnergyAmounts"];

interface Props {
  plant: FleetPlant;
  power: components["schemas"]["FleetPower"];
  /** Of the day in `timeZone` until now; undefined until they are loaded. */
  today: Energies | undefined;
  timeZone: string;
}

interface Node {
  name: string;
  kilowatts: number | null;
  /** What the power does, beside its number; "" where only a minus says so. */
  word: string;
  /** 1: energy comes from here, -1: it goes there, 0: neither. */
  gives: -1 | 0 | 1;
  /** Degrees clockwise from the right of the centre. */
  angle: 0 | 90 | 180 | 270;
  x: number;
  y: number;
}

const AMOUNTS = ["produced", "imported", "exported", "charged", "discharged"] as const;
const CENTRE = { x: 160, y: 146 };
const RADIUS = 42;

/** Where energy comes from and goes to now, with numbers, words and arrows, and the energies of the day. */
export function EnergyFlow({ plant, power, today, timeZone }: Props) {
  const texts = useTexts();
  const locale = useLocale();
  const now = useNow(1);
  const { pvKw, gridKw, loadKw, batteryKw } = power;
  const nodes: Node[] = [
    { name: texts.fleet.pv, kilowatts: pvKw, word: "", gives: sign(pvKw), angle: 270, x: 160, y: 46 },
    {
      name: texts.fleet.grid,
      kilowatts: gridKw,
      word: texts.fleet.gridWord(sign(gridKw)),
      gives: sign(gridKw),
      angle: 180,
      x: 48,
      y: 146,
    },
    { name: texts.fleet.load, kilowatts: loadKw, word: "", gives: opposite(sign(loadKw)), angle: 0, x: 272, y: 146 },
    {
      name: texts.fleet.battery,
      kilowatts: batteryKw,
      word: texts.fleet.batteryWord(sign(batteryKw)),
      gives: opposite(sign(batteryKw)),
      angle: 90,
      x: 160,
      y: 246,
    },
  ];
  const shown = nodes.filter(({ kilowatts }) => kilowatts !== null);
  const charge = plant.soc === null ? "" : percent(plant.soc, locale);
  const sentence = shown.map(({ name, kilowatts, word }) =>
    `${name} ${amount(kilowatts, word, locale)} ${word}`.trim(),
  );
  if (charge) sentence.push(`${texts.flow.soc} ${charge}`);
  return (
    <section className={power.fresh ? "card flow" : "card flow stale"}>
      <h2>
        {texts.flow.title}{" "}
        <span className="fine">
          <Age time={power.measuredAt} now={now} timeZone={timeZone} />
        </span>
      </h2>
      {!power.fresh && <p className="fine">{texts.flow.stale}</p>}
      <svg viewBox="0 0 320 292" role="img" aria-label={sentence.join(", ")}>
        {shown.map((node) => (
          <Line key={node.name} {...node} isMoving={power.fresh} />
        ))}
        <circle cx={CENTRE.x} cy={CENTRE.y} r="5" className="hub" />
        {shown.map(({ name, kilowatts, word, x, y }) => (
          <g key={name} transform={`translate(${x} ${y})`}>
            <circle r={RADIUS} className="node" />
            {name === texts.fleet.battery && plant.soc !== null && (
              <circle r={RADIUS} className="charge" pathLength="100" strokeDasharray={`${plant.soc} 100`} />
            )}
            <text y="-16">{name}</text>
            <text y="3" className="amount">
              {amount(kilowatts, word, locale)}
            </text>
            <text y="17">{word}</text>
            {name === texts.fleet.battery && <text y="30">{charge}</text>}
          </g>
        ))}
      </svg>
      {today && AMOUNTS.some((name) => today[name] !== null) && (
        <div>
          <h3>{texts.flow.today}</h3>
          <dl className="details">
            {AMOUNTS.map((name) => (
              <Fact key={name} name={texts.energy.amounts[name]}>
                {energy(today[name], locale)}
              </Fact>
            ))}
          </dl>
        </div>
      )}
    </section>
  );
}

function amount(kilowatts: number | null, word: string, locale: string): string {
  return word === "" ? signedPower(kilowatts, locale) : unsignedPower(kilowatts, locale);
}

/** The line between the centre and a node, with an arrow where energy goes. */
function Line({ gives, angle, x, y, isMoving }: Node & { isMoving: boolean }) {
  const end = Math.hypot(x - CENTRE.x, y - CENTRE.y) - RADIUS;
  const middle = (5 + end) / 2;
  const [from, to] = gives > 0 ? [end, 5] : [5, end];
  return (
    <g transform={`translate(${CENTRE.x} ${CENTRE.y}) rotate(${angle})`} className={gives === 0 ? "idle" : "active"}>
      <line x1={from} x2={to} className={isMoving && gives !== 0 ? "moving" : undefined} />
      {gives !== 0 && (
        <path d={`M${middle + 7 * gives} -6 L${middle - 7 * gives} 0 L${middle + 7 * gives} 6 Z`} className="arrow" />
      )}
    </g>
  );
}

function opposite(value: -1 | 0 | 1): -1 | 0 | 1 {
  return value === 0 ? 0 : value > 0 ? -1 : 1;
}
