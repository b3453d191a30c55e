"""What the long sample PDF says: an operator's manual with headings of three levels. All of it is fictional."""

from __future__ import annotations

from datetime import date

from bench.sample.pdf_blocks import Bullets, Grid, Heading, PageBreak, Paragraph, Sheet

OPERATOR_MANUAL = Sheet(
    path="tarnfell/support/marten-operator-manual.pdf",
    title="Marten Operator Manual",
    author="Technical Writing",
    created=date(2026, 4, 20),
    header="Marten Operator Manual - firmware MAR-7.3",
    footer="Document TM-220 edition 5",
    blocks=(
        Heading(1, "1 About this manual"),
        Paragraph(
            "This manual is for the people who work with Marten every day: operators at the console, robot stewards on "
            "the floor, and cleaners. It does not replace the course. Work on the electrical system and on the brakes "
            "is reserved for technicians of field service."
        ),
        Heading(2, "1.1 What Marten does"),
        Paragraph(
            "Marten is a low robot that drives under a shelf, lifts it by 55 mm and carries it to a station. It finds "
            "its way with a lidar at the front and a camera that reads floor markers. A site controller tells it "
            "where to go; Marten itself decides how fast it can drive safely."
        ),
        Heading(2, "1.2 Technical data"),
        Grid(
            rows=(
                ("Property", "Value"),
                ("Length, width, height", "1,020 x 680 x 290 mm"),
                ("Weight with battery", "148 kg"),
                ("Largest load", "600 kg"),
                ("Top speed, empty", "2.0 m/s"),
                ("Top speed, loaded", "1.6 m/s"),
                ("Running time on one charge", "9 hours"),
                ("Noise at 1 metre", "62 dB(A)"),
                ("Permitted temperature", "2 to 40 degrees"),
            ),
            widths_mm=(70, 70),
        ),
        Heading(2, "1.3 Words used for danger"),
        Bullets(
            (
                "DANGER: people will be hurt if the sentence is not obeyed.",
                "WARNING: people may be hurt.",
                "NOTICE: the robot or the goods may be damaged.",
            )
        ),
        PageBreak(),
        Heading(1, "2 Safety"),
        Heading(2, "2.1 Protective devices"),
        Paragraph(
            "The laser scanner at the front has two fields. When something enters the outer field, Marten slows to "
            "0.5 m/s. When something enters the inner field, it stops. The fields grow with speed and with load."
        ),
        Heading(3, "2.1.1 Bumper"),
        Paragraph(
            "The bumper runs around the whole robot. After a contact Marten stands still until a steward presses the "
            "white button for two seconds. Three contacts within one hour lock the robot; only the console can "
            "release it then."
        ),
        Heading(3, "2.1.2 Emergency stop"),
        Paragraph(
            "There are two red buttons, one on each long side. They cut the motor current and engage the brakes. To "
            "release, turn the button to the right and acknowledge at the console."
        ),
        Heading(2, "2.2 Remaining dangers"),
        Paragraph(
            "Shelves that are taller than 2.2 metres may tip when they are loaded on one side. Load heavy goods at the "
            "bottom. Never ride on the robot, and never lie down on the floor of a robot area: the scanner plane is "
            "170 mm above the floor and does not see a flat hand or a foot at every place."
        ),
        Heading(2, "2.3 Fire"),
        Paragraph(
            "If smoke comes out of a robot, press the hall alarm first. Do not open the battery. Use the water mist "
            "extinguisher with the yellow band, and keep a distance of at least five metres after the flames are out, "
            "because cells can light up again within 24 hours."
        ),
        PageBreak(),
        Heading(1, "3 Daily operation"),
        Heading(2, "3.1 Starting"),
        Bullets(
            (
                "Check that nothing lies on the robot and that both red buttons are released.",
                "Turn the key from 0 to 1 and wait for the rising tone, about 50 seconds.",
                "Place the robot on a floor marker and press the blue button for three seconds.",
                "Set the robot to automatic at the console.",
            ),
            numbered=True,
        ),
        Heading(2, "3.2 Lamp colours"),
        Grid(
            rows=(
                ("Colour", "Meaning", "What to do"),
                ("green, steady", "on a mission", "nothing"),
                ("green, slow pulse", "waits for work", "nothing"),
                ("yellow", "slowed by the scanner", "clear the way"),
                ("blue", "does not know where it is", "push to a marker"),
                ("red", "stopped for safety", "look at the display"),
                ("white, fast blink", "update is being installed", "do not switch off"),
            ),
            widths_mm=(42, 54, 50),
        ),
        Heading(2, "3.3 Moving a robot by hand"),
        Paragraph(
            "Turn the key to HAND. The brakes open only while the grip at the rear is pulled. Push with two people "
            "when a shelf is on top. Do not push faster than a slow walk; above 0.8 m/s the motors brake by themselves."
        ),
        Heading(3, "3.3.1 On a ramp"),
        Paragraph(
            "Do not move a robot by hand on a ramp. If it has stopped there, secure it with the two orange wedges and "
            "call field service."
        ),
        Heading(2, "3.4 End of the day"),
        Paragraph(
            "Robots may stay switched on. If the site closes for more than 72 hours, send all robots to the parking "
            "area with a charge of 50 to 70 percent and turn the keys to 0."
        ),
        PageBreak(),
        Heading(1, "4 Charging"),
        Heading(2, "4.1 Automatic charging"),
        Paragraph(
            "Marten drives to a dock when its charge falls below 22 percent or when there is no work for five minutes. "
            "A charge from 20 to 80 percent takes 48 minutes. Docks are assigned by distance."
        ),
        Heading(2, "4.2 Charging by cable"),
        Paragraph(
            "A robot with an empty battery is charged with the service cable CB-9 behind the left flap. It gives 10 A, "
            "so allow two hours before the robot can drive to a dock."
        ),
        Heading(3, "4.2.1 Deep discharge"),
        Paragraph(
            "Below 40 volts the charger refuses the pack. Do not try to wake it with another power supply. Put a tag "
            "on the robot and order an exchange."
        ),
        Heading(2, "4.3 Balance charge"),
        Paragraph(
            "Once every 14 days each robot makes a balance charge that takes about three hours. The site controller "
            "plans it at night. If it was missed twice, the robot shows the note BAL DUE and loses 10 percent of its "
            "range until it is done."
        ),
        PageBreak(),
        Heading(1, "5 Cleaning and care"),
        Heading(2, "5.1 Intervals"),
        Grid(
            rows=(
                ("What", "How often", "By whom"),
                ("Wipe the scanner window", "every day", "steward"),
                ("Remove film and string from the wheels", "every week", "steward"),
                ("Clean the charging plates", "every month", "steward"),
                ("Check the lift belt", "every 1,000 hours", "technician"),
                ("Replace the brake pads", "every 6,000 hours", "technician"),
            ),
            widths_mm=(70, 40, 36),
        ),
        Heading(2, "5.2 Cleaning agents"),
        Paragraph(
            "Use a damp cloth and neutral soap. Solvents make the scanner window blind. High-pressure cleaners and "
            "compressed air drive dirt into the bearings and are forbidden."
        ),
        Heading(2, "5.3 Wheels"),
        Heading(3, "5.3.1 When to replace"),
        Paragraph(
            "The tread of a new drive wheel is 12 mm. Replace both wheels when the tread is below 7 mm or when the "
            "difference between left and right is more than 0.5 mm, because the robot then drives in a curve."
        ),
        Heading(3, "5.3.2 After replacing"),
        Paragraph(
            "Run the function Learn wheels on a straight aisle of at least 12 metres. Without it the odometry is wrong "
            "by up to two percent."
        ),
        PageBreak(),
        Heading(1, "6 When something is wrong"),
        Heading(2, "6.1 Codes on the display"),
        Grid(
            rows=(
                ("Code", "Meaning", "Remedy"),
                ("M-03", "shelf is not centred", "set it down, align, lift again"),
                ("M-07", "load above 600 kg", "take goods out"),
                ("M-11", "scanner window is dirty", "wipe, then press white"),
                ("M-15", "key in HAND for more than 30 minutes", "turn to 1"),
                ("M-22", "motor too hot", "wait 15 minutes"),
                ("M-31", "lift belt slips", "call field service"),
            ),
            widths_mm=(22, 68, 60),
        ),
        Heading(2, "6.2 The robot does not start"),
        Paragraph(
            "If the display stays dark, look at the main fuse behind the left flap, 80 A, with the window that turns "
            "red. A blown fuse is never replaced by the operator: it means that something else is broken."
        ),
        Heading(2, "6.3 The robot drives in a curve"),
        Paragraph("Compare the tread of both wheels. If they are equal, run Learn wheels as described in chapter 5."),
        Heading(2, "6.4 Reading the log"),
        Paragraph(
            "Hold white and blue together for five seconds. The display shows a square code with the last 20 events. "
            "Scan it with the service app and attach the picture to the ticket."
        ),
        PageBreak(),
        Heading(1, "7 Transport, storage and disposal"),
        Heading(2, "7.1 Transport"),
        Paragraph(
            "Marten travels on the pallet PL-M with four straps. The key is removed and travels in a separate "
            "envelope. Lift the pallet only from the long side; the forks must be at least 1.2 metres long."
        ),
        Heading(2, "7.2 Storage"),
        Paragraph(
            "Store robots dry, at 5 to 30 degrees and at a charge of about 60 percent. After six months in storage "
            "charge the battery again, and turn the wheels by half a turn so that they do not become flat."
        ),
        Heading(2, "7.3 Disposal"),
        Paragraph(
            "We take back every robot free of charge. Erase the site data first with Service > Retire; this deletes "
            "map, keys and logs and cannot be undone."
        ),
    ),
)
