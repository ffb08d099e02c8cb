import { expect, test } from "vitest";
import type { FleetPlant } from "./fleet";
import { csvOfPlants } from "./fleet-csv";

const UNSEEN: FleetPlant = {
  id: "1",
  name: "Barn",
  serialNumber: "SN-1",
  status: "UNKNOWN",
  lifecycleStatus: "PENDING",
  templateId: null,
  lastSeenAt: null,
  createdAt: "2026-03-29T00:00:00Z",
  power: null,
  soc: null,
  energyToday: null,
  openAlerts: 0,
  worstAlert: null,
  lastRefusedAt: null,
};

test("a plant is a row with its values as they are, and without those that are not known", () => {
  const seenAt = "2026-03-29T03:30:00.250+02:00";
  const seen: FleetPlant = {
    ...UNSEEN,
    name: "-Roof",
    status: "ONLINE",
    lifecycleStatus: "ACTIVE",
    lastSeenAt: seenAt,
    power: { pvKw: 1234.5678901, batteryKw: -0.5, gridKw: 0, loadKw: null, measuredAt: seenAt, fresh: false },
    soc: 64.25,
    energyToday: { produced: 12.125, imported: 1, exported: 2, charged: 3, discharged: 4 },
    openAlerts: 2,
    worstAlert: "WARNING",
  };
  expect(csvOfPlants([UNSEEN, seen]).split("\r\n")).toEqual([
    "id,name,serialNumber,status,lifecycleStatus,lastSeenAt,worstAlert,openAlerts," +
      "pvKw,batteryKw,gridKw,loadKw,fresh,soc,producedTodayKwh",
    "1,Barn,SN-1,UNKNOWN,PENDING,,,0,,,,,,,",
    "1,'-Roof,SN-1,ONLINE,ACTIVE,2026-03-29T01:30:00.250Z,WARNING,2,1234.5678901,-0.5,0,,false,64.25,12.125",
    "",
  ]);
});
